// Two sources of words: list files (name, TAB, word, or ICDAR's quoted form) and LMDB databases in CRNN's layout.
#include <apps/ocr/recognition/word_source.h>

#include <lockstep/base/text.h>
#include <lockstep/data/files/items.h>
#include <lockstep/samples/pictures.h>

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace lockstep::ocr {
namespace {

struct ListedWord {
  std::string name;
  std::string label;
  int line = 0;
};

/// Error(data) without a position.
ListedWord split_at_tab(std::string_view line) {
  const auto tab = line.find('\t');
  if (tab != std::string_view::npos && tab > 0) {
    return {std::string(line.substr(0, tab)), std::string(line.substr(tab + 1))};
  }
  fail(ErrorKind::data, "data",
       "a line is a picture's name, a tab and its word, not '{}'; for lines such as word_1.png, \"TEXT\" set "
       "data.labels to icdar",
       cut_text(line));
}

/// The same for `word_1.png, "TEXT"`.
ListedWord split_before_quote(std::string_view line) {
  const auto comma = line.find(", \"");
  if (comma == std::string_view::npos || comma == 0 || line.size() < comma + 4 || !line.ends_with('"')) {
    fail(ErrorKind::data, "data",
         "a line is a picture's name, a comma, a blank and its word in quotes, not '{}'; for lines with a tab set "
         "data.labels to tab",
         cut_text(line));
  }
  ListedWord word{.name = std::string(line.substr(0, comma)), .label = {}};
  const auto quoted = line.substr(comma + 3, line.size() - comma - 4);
  for (std::size_t i = 0; i < quoted.size(); ++i) {
    if (quoted[i] == '\\' && i + 1 < quoted.size() && quoted[i + 1] == '"') ++i;
    word.label += quoted[i];
  }
  return word;
}

class ListedWords final : public WordSource {
 public:
  explicit ListedWords(const WordFiles& files) : list_(files.path.string()), images_(files.images) {
    data::BadItems bad(files.skips, "lines of " + list_);
    std::int64_t lines = 0;
    data::for_each_line(files.path, files.key, [&](std::string_view line, int number) {
      ++lines;
      bad.try_to([&] { words_.push_back(read_line(line, number, files.labels)); });
    });
    bad.report(lines);
    if (lines == 0) fail(ErrorKind::config, files.key, "the list {} has no lines", list_);
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(words_.size()); }
  std::string_view label(std::int64_t index) const override { return at(index).label; }
  std::string name(std::int64_t index) const override { return (images_ / at(index).name).string(); }
  FilePosition place(std::int64_t index) const override { return {list_, at(index).line}; }

  data::Picture picture(std::int64_t index, const data::DecodeOptions& options) const override {
    try {
      return data::read_picture(name(index), options);
    } catch (const Error& error) {
      throw Error(error.kind(), error.where(), error.message(), place(index));
    }
  }

 private:
  ListedWord read_line(std::string_view line, int number, const std::string& labels) const {
    try {
      auto word = labels == "icdar" ? split_before_quote(line) : split_at_tab(line);
      word.line = number;
      return word;
    } catch (const Error& error) {
      throw Error(error.kind(), error.where(), error.message(), {list_, number});
    }
  }

  const ListedWord& at(std::int64_t index) const { return words_.at(static_cast<std::size_t>(index)); }

  std::string list_;
  std::filesystem::path images_;
  std::vector<ListedWord> words_;
};

class StoredWords final : public WordSource {
 public:
  explicit StoredWords(const WordFiles& files) : pictures_(files.path, files.key) {}

  std::int64_t size() const override { return pictures_.size(); }
  std::string_view label(std::int64_t index) const override { return pictures_.label(index); }
  std::string name(std::int64_t index) const override { return pictures_.picture_path(index); }
  FilePosition place(std::int64_t index) const override { return {pictures_.label_name(index), 0}; }
  data::Picture picture(std::int64_t index, const data::DecodeOptions& options) const override {
    return pictures_.picture(index, options);
  }

 private:
  samples::LmdbPictures pictures_;
};

}  // namespace

std::unique_ptr<WordSource> open_words(const WordFiles& files) {
  std::error_code code;
  if (std::filesystem::is_directory(files.path, code) || files.path.filename() == "data.mdb") {
    return std::make_unique<StoredWords>(files);
  }
  return std::make_unique<ListedWords>(files);
}

}  // namespace lockstep::ocr
