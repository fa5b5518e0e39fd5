// Sources of words with their pictures: list files or LMDB databases.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/data/pictures.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace lockstep::ocr {

/// Thread-safe. 0 <= index < size().
class WordSource {
 public:
  virtual ~WordSource() = default;
  virtual std::int64_t size() const = 0;
  /// The word in UTF-8, unchanged from the file. Error(data) if it is missing or damaged.
  virtual std::string_view label(std::int64_t index) const = 0;
  /// The picture's file, or file and key.
  virtual std::string name(std::int64_t index) const = 0;
  /// The position of the word, for messages.
  virtual FilePosition place(std::int64_t index) const = 0;
  /// Error(data), with the word's position, for a picture that is missing or damaged.
  virtual data::Picture picture(std::int64_t index, const data::DecodeOptions& options) const = 0;
};

struct WordFiles {
  std::filesystem::path path{};  ///< a list, or a folder with LMDB databases in it or below it
  std::filesystem::path images;  ///< folder that the names in a list are relative to
  std::string labels = "tab";    ///< tab or icdar: the form of a list
  bool skips = false;            ///< lines that cannot be read are left out and counted, instead of ending the run
  std::string key;               ///< for messages, such as "data.train"
};

/// Lists are UTF-8, with a byte order mark or without, with LF or CR LF; empty lines are skipped. The form of each
/// line:
///   tab     the picture's name, a tab and the word
///   icdar   the picture's name, a comma, a blank and the word in quotes, those within it as \"
/// Error(config), naming `key`, for a file or folder that is missing; Error(data) with file and line for a line of
/// another form.
std::unique_ptr<WordSource> open_words(const WordFiles& files);

}  // namespace lockstep::ocr
