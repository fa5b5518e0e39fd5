// Pictures written by the libraries themselves, for tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::test {

/// RGB, a soft pattern that depends on `shade`.
std::vector<std::uint8_t> pattern(int width, int height, int shade);

std::string jpeg_of(const std::vector<std::uint8_t>& rgb, int width, int height);
/// In several scans.
std::string progressive_jpeg_of(const std::vector<std::uint8_t>& rgb, int width, int height);
std::string png_of(const std::vector<std::uint8_t>& rgb, int width, int height);

void write_bytes(const std::filesystem::path& file, const std::string& bytes);

}  // namespace lockstep::test
