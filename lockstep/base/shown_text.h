// Foreign text and files in messages: long texts are cut, and binary files are named by their type.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// `text`, or for one of more than `most` bytes its beginning and its length: "aaaa... (10485760 bytes)". A character
/// of UTF-8 is not cut in two.
std::string cut_text(std::string_view text, std::size_t most = 80);

/// What a file that begins with these bytes is, when that is plain to see and it is not text: "a zip archive", "an ELF
/// program"; empty otherwise. 8 bytes are enough.
std::string_view kind_of_file(std::string_view begin);

}  // namespace lockstep
