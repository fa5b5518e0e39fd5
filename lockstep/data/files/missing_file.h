// Why a file that a list names may not be there.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep::data {

/// What may be meant by the name of a file that is not there: "; the folder has 'A.JPG'". Names differ by \ in place of
/// /, by blanks around them, by the case of letters, or by how accents are written. Empty: nothing is found. Looks at
/// the first 10,000 files of the folder at most.
std::string advice_on_missing(const std::filesystem::path& file);

}  // namespace lockstep::data
