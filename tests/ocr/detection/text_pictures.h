// Small pictures with boxes that a network can find, made for tests.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::test {

/// PNGs of 128x96, dark noise with one to three bright striped boxes, in `folder`, and a label file with a line for
/// each; the same for the same `seed`.
void made_pictures(const std::filesystem::path& labels, const std::filesystem::path& folder, int count, unsigned seed);

/// 24 for training and 7 for evaluation, where db_r18_icdar15.yaml looks for them in `root`.
void made_pictures(const std::filesystem::path& root);

/// What makes of db_r18_icdar15.yaml a configuration that trains a small network on them.
std::vector<std::string> keys_for_made_pictures(const std::filesystem::path& root);

}  // namespace lockstep::test
