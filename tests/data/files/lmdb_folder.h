// A folder as LMDB keeps it, for tests of what reads one.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace lockstep::test {

/// Makes `folder` where it is missing, and writes these values by their keys.
void write_lmdb(const std::filesystem::path& folder, const std::map<std::string, std::string>& entries);

}  // namespace lockstep::test
