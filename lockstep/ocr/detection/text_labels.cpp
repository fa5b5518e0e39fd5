// Parsers of word labels: lines of name, TAB and JSON (MindOCR), and comma-separated lines in gt_NAME.txt (ICDAR).
#include <lockstep/ocr/detection/text_labels.h>

#include <lockstep/base/error.h>
#include <lockstep/base/json_words.h>
#include <lockstep/base/parse.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/data/files/csv.h>
#include <lockstep/data/files/mapped_file.h>
#include <lockstep/data/files/picture.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace lockstep::ocr {
namespace {

using nlohmann::json;

constexpr const char* kWhere = "labels";
constexpr double kFarthest = 100'000;
constexpr std::size_t kCornersOfIcdar = 4;

bool is_ignored(std::string_view text) { return text == "###" || text == "*"; }

double checked(double coordinate, std::size_t word) {
  if (std::isfinite(coordinate) && std::abs(coordinate) <= kFarthest) return coordinate;
  fail(ErrorKind::data, kWhere, "word {} has the coordinate {}; coordinates are pixels, from {} to {}", word,
       coordinate, -kFarthest, kFarthest);
}

double coordinate_of(const json& value, std::size_t word) {
  if (!value.is_number()) {
    fail(ErrorKind::data, kWhere, "word {} has the coordinate {}; it has to be a number", word, cut_text(value.dump()));
  }
  return checked(value.get<double>(), word);
}

Word word_of(const json& entry, std::size_t number) {
  const auto text = entry.is_object() ? entry.find("transcription") : entry.end();
  const auto points = entry.is_object() ? entry.find("points") : entry.end();
  if (!entry.is_object() || text == entry.end() || points == entry.end() || !text->is_string() || !points->is_array()) {
    fail(ErrorKind::data, kWhere, "word {} has to be {{\"transcription\": TEXT, \"points\": [[X, Y], ...]}}, and is {}",
         number, cut_text(entry.dump()));
  }
  Word word{.polygon = {}, .ignored = is_ignored(text->get_ref<const std::string&>())};
  for (const auto& point : *points) {
    if (!point.is_array() || point.size() != 2) {
      fail(ErrorKind::data, kWhere, "word {} has the corner {}; a corner is [X, Y]", number, cut_text(point.dump()));
    }
    word.polygon.emplace_back(coordinate_of(point[0], number), coordinate_of(point[1], number));
  }
  if (word.polygon.size() < 3) {
    fail(ErrorKind::data, kWhere, "word {} has {} corners; a polygon has three or more", number, word.polygon.size());
  }
  return word;
}

/// Reads the lines of a file; errors get its name and their number.
void for_each_line_of(const std::filesystem::path& file, std::string_view key, const TryTo& try_to,
                      const std::function<void(std::string_view line, int number)>& read) {
  const data::MappedFile mapped(file, key);
  const auto bytes = mapped.bytes();
  data::for_each_line({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                      [&](std::string_view line, int number) {
                        try_to([&] {
                          try {
                            read(line, number);
                          } catch (const Error& error) {
                            throw Error(error.kind(), error.where(), error.message(), {file.string(), number});
                          }
                        });
                      });
}

}  // namespace

LabelledPicture parse_label_line(std::string_view line) {
  const auto tab = line.find('\t');
  if (tab == std::string_view::npos || tab == 0) {
    fail(ErrorKind::data, kWhere, "a line is a picture's name, a tab and a list of words in JSON, not '{}'",
         cut_text(line));
  }
  LabelledPicture picture{.name = std::string(line.substr(0, tab)), .words = {}, .label_file = {}};
  json list;
  try {
    list = json::parse(line.substr(tab + 1));
  } catch (const json::exception& error) {
    fail(ErrorKind::data, kWhere, "what follows the tab has to be a list of words in JSON: {}", json_mistake(error));
  }
  if (!list.is_array()) {
    fail(ErrorKind::data, kWhere, "what follows the tab has to be a list of words in JSON, and is {}",
         cut_text(list.dump()));
  }
  for (std::size_t i = 0; i < list.size(); ++i) picture.words.push_back(word_of(list[i], i + 1));
  return picture;
}

Word parse_icdar_line(std::string_view line) {
  Word word;
  std::string_view rest = line;
  for (std::size_t i = 0; i < 2 * kCornersOfIcdar; ++i) {
    const auto comma = rest.find(',');
    const auto number = comma == std::string_view::npos ? std::nullopt : parse_number(rest.substr(0, comma));
    if (!number) {
      fail(ErrorKind::data, kWhere, "a line is x1,y1,x2,y2,x3,y3,x4,y4,TEXT with numbers for x and y, not '{}'",
           cut_text(line));
    }
    const double value = checked(*number, 1);
    if (i % 2 == 0) {
      word.polygon.emplace_back(value, 0);
    } else {
      word.polygon.back().y = value;
    }
    rest.remove_prefix(comma + 1);
  }
  word.ignored = is_ignored(rest);
  return word;
}

std::vector<LabelledPicture> read_label_file(const std::filesystem::path& file, std::string_view key,
                                             const TryTo& try_to) {
  std::vector<LabelledPicture> pictures;
  for_each_line_of(file, key, try_to, [&](std::string_view line, int number) {
    auto picture = parse_label_line(line);
    picture.label_file = file.string();
    picture.line = number;
    pictures.push_back(std::move(picture));
  });
  return pictures;
}

std::vector<LabelledPicture> read_icdar_folder(const std::filesystem::path& folder,
                                               const std::filesystem::path& pictures, std::string_view key,
                                               const TryTo& try_to) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(pictures, error)) {
    if (auto name = entry.path().filename().string(); data::has_picture_name(name)) names.push_back(std::move(name));
  }
  if (error) {
    fail(ErrorKind::config, key, "the folder of the pictures, {}, cannot be read: {}", pictures.string(),
         error.message());
  }
  std::ranges::sort(names);
  std::vector<LabelledPicture> all;
  for (auto& name : names) {
    const auto file = folder / ("gt_" + std::filesystem::path(name).stem().string() + ".txt");
    LabelledPicture picture{.name = name, .words = {}, .label_file = file.string()};
    const bool whole = try_to([&] {
      if (std::filesystem::exists(file)) return;
      throw Error(ErrorKind::data, kWhere, "the picture " + name + " has no label file", {file.string()});
    });
    if (!whole) continue;
    for_each_line_of(file, key, try_to,
                     [&](std::string_view line, int) { picture.words.push_back(parse_icdar_line(line)); });
    all.push_back(std::move(picture));
  }
  return all;
}

}  // namespace lockstep::ocr
