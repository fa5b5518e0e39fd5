// Possible reasons why a file in a list is missing.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep::data {

/// A suggestion for the name of a missing file: "; the folder has 'A.JPG'". Names differ by \ in place of /, by blanks
/// around them, by the case of letters, or by how accents are written. Empty: there is no similar name. Looks at the
/// first 10,000 files of the folder at most.
std::string advice_on_missing(const std::filesystem::path& file);

}  // namespace lockstep::data
