// Words as pictures and files, made for tests.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::test {

/// A PNG, 32 high, in which each letter is a stripe of a colour of its own (a to h): what a small network learns to
/// read in a few steps. `shade` changes it a little.
std::string picture_of_word(const std::string& letters, int shade);

/// Words of one or two letters of a to d, the same for the same numbers.
std::vector<std::string> made_words(int count, int seed);

/// Writes `list` with a line for each word, and the pictures into the folder `images` beside it.
void write_words(const std::filesystem::path& list, const std::filesystem::path& images,
                 const std::vector<std::string>& words);

}  // namespace lockstep::test
