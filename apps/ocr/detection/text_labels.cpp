// Parsers of word labels: lines of name, TAB and JSON (MindOCR), and comma-separated lines in gt_NAME.txt (ICDAR).
#include <apps/ocr/detection/text_labels.h>

#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/data/files/items.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace lockstep::ocr {
namespace {

using nlohmann::json;

constexpr const char* kWhere = "labels";
constexpr double kFarthest = 100'000;
constexpr std::size_t kCornersOfIcdar = 4, kNumbersOf2015 = 8, kNumbersOf2013 = 4;

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

/// Scripts of ICDAR MLT 2017 and 2019.
constexpr std::array<std::string_view, 10> kScripts = {"Arabic", "Latin", "Chinese", "Japanese", "Korean",
                                                       "Bangla", "Hindi", "Symbols", "Mixed",    "None"};

/// The text before the first comma, if it is a script.
std::string_view script_of(std::string_view rest) {
  const auto comma = rest.find(',');
  if (comma == std::string_view::npos) return {};
  const auto script = trimmed(rest.substr(0, comma));
  return std::ranges::find(kScripts, script) == kScripts.end() ? std::string_view{} : script;
}

/// Numbers at the beginning of a line, and what follows them.
struct Beginning {
  std::vector<double> numbers;
  std::string_view rest;
};

/// The first `count` numbers, each followed by a comma; fewer if other text follows.
Beginning numbers_before_commas(std::string_view line, std::size_t count) {
  Beginning found{{}, line};
  while (found.numbers.size() < count) {
    const auto comma = found.rest.find(',');
    const auto number =
        comma == std::string_view::npos ? std::nullopt : parse_number(trimmed(found.rest.substr(0, comma)));
    if (!number) break;
    found.numbers.push_back(*number);
    found.rest.remove_prefix(comma + 1);
  }
  return found;
}

/// The same with commas or blanks between.
Beginning numbers_of_2013(std::string_view line) {
  constexpr std::string_view kBetween = ", \t";
  Beginning found{{}, trimmed(line)};
  while (found.numbers.size() < kNumbersOf2013) {
    const auto end = found.rest.find_first_of(kBetween);
    const auto number = end == std::string_view::npos ? std::nullopt : parse_number(found.rest.substr(0, end));
    if (!number) break;
    found.numbers.push_back(*number);
    found.rest.remove_prefix(std::min(found.rest.size(), found.rest.find_first_not_of(kBetween, end)));
  }
  return found;
}

/// x,y of each of some corners, then ####TEXT.
bool is_of_ctw(std::string_view line) {
  const auto mark = line.find(",####");
  if (mark == std::string_view::npos) return false;
  const auto found = numbers_before_commas(line.substr(0, mark + 1), mark).numbers.size();
  const auto fields = static_cast<std::size_t>(std::ranges::count(line.substr(0, mark + 1), ','));
  return found == fields && found >= 6 && found % 2 == 0 && found != kNumbersOf2015;
}

/// The form of a line; nullopt for an unknown form.
std::optional<WordForm> form_of(std::string_view line) {
  if (is_of_ctw(line)) return std::nullopt;
  const auto eight = numbers_before_commas(line, kNumbersOf2015);
  if (eight.numbers.size() == kNumbersOf2015) {
    return script_of(eight.rest).empty() ? WordForm::icdar2015 : WordForm::mlt;
  }
  if (numbers_of_2013(line).numbers.size() == kNumbersOf2013) return WordForm::icdar2013;
  return std::nullopt;
}

/// The program whose labels have such lines, and advice; empty if unknown.
std::string_view foreign_form(std::string_view line) {
  const auto text = trimmed(line);
  if (text.starts_with('{') || text.starts_with('[')) {
    return "one JSON text for all pictures, as ArT, LSVT and COCO have it; write a list with a line for each picture";
  }
  if (text.starts_with('<')) {
    return "XML, as CTW1500 and Pascal VOC have it; write a list with a line for each picture";
  }
  if (text.starts_with("x:")) {
    return "Total-Text's (x: [[...]], y: [[...]], ...); write a list with a line for each picture";
  }
  if (line.find("\t[{") != std::string_view::npos || line.ends_with("\t[]")) {
    return "a list's (name, tab, JSON), as MindOCR and PaddleOCR have it; give the list itself, not a folder";
  }
  if (is_of_ctw(text)) {
    return "CTW1500's (x,y of each corner, then ####TEXT); write a list with a line for each picture";
  }
  if (text.ends_with('"') && text.find(", \"") != std::string_view::npos && !form_of(line)) {
    return "that of ICDAR's words (word_1.png, \"TEXT\"), which are for data.name words with data.labels icdar";
  }
  return {};
}

const char* name_of(WordForm form) {
  return form == WordForm::mlt ? "mlt" : form == WordForm::icdar2013 ? "icdar2013" : "icdar2015";
}

const char* description_of(WordForm form) {
  switch (form) {
    case WordForm::mlt: return "x1,y1,x2,y2,x3,y3,x4,y4,SCRIPT,TEXT";
    case WordForm::icdar2013: return "LEFT TOP RIGHT BOTTOM \"TEXT\"";
    case WordForm::icdar2015: break;
  }
  return "x1,y1,x2,y2,x3,y3,x4,y4,TEXT";
}

/// The same for a line of a folder's file that was read as `expected`.
std::string hint_of_folder(std::string_view line, WordForm expected) {
  if (const auto form = form_of(line); form && *form != expected) {
    return fmt::format("; its form is {}: set data.labels to the form of the files", name_of(*form));
  }
  const auto form = foreign_form(line);
  return form.empty() ? "" : fmt::format("; its form is {}", form);
}

/// For the end of a message about a line of a list.
std::string hint_of_list(std::string_view line) {
  if (form_of(line)) {
    return "; its form is that of ICDAR's files: give their folder, with a file gt_NAME.txt for each picture";
  }
  const auto form = foreign_form(line);
  return form.empty() ? "" : fmt::format("; its form is {}", form);
}

/// An ignored word around the valid corners; nullopt if they enclose no area.
std::optional<Word> rough_word(const Polygon& corners) {
  if (corners.size() >= kCornersOfIcdar && area(corners) > 0) return Word{.polygon = corners, .ignored = true};
  const auto box = bounds(corners);
  if (box.width <= 0 || box.height <= 0) return std::nullopt;
  return Word{.polygon = {{box.x, box.y},
                          {box.x + box.width, box.y},
                          {box.x + box.width, box.y + box.height},
                          {box.x, box.y + box.height}},
              .ignored = true};
}

bool is_usable(double coordinate) { return std::isfinite(coordinate) && std::abs(coordinate) <= kFarthest; }

std::optional<Word> rough_icdar_word(std::string_view line, WordForm form) {
  if (form == WordForm::icdar2013) {
    const auto found = numbers_of_2013(line).numbers;
    if (found.size() < kNumbersOf2013 || !std::ranges::all_of(found, is_usable)) return std::nullopt;
    return rough_word({{found[0], found[1]}, {found[2], found[3]}});
  }
  Polygon corners;
  std::optional<double> x;
  for (std::size_t i = 0; i < kNumbersOf2015 && !line.empty(); ++i) {
    const auto comma = std::min(line.size(), line.find(','));
    auto number = parse_number(trimmed(line.substr(0, comma)));
    if (number && !is_usable(*number)) number.reset();
    if (i % 2 == 1 && x && number) corners.emplace_back(*x, *number);
    x = number;
    line.remove_prefix(std::min(line.size(), comma + 1));
  }
  return rough_word(corners);
}

std::optional<Word> rough_json_word(const json& entry) {
  const auto points = entry.is_object() ? entry.find("points") : entry.end();
  if (!entry.is_object() || points == entry.end() || !points->is_array()) return std::nullopt;
  Polygon corners;
  for (const auto& point : *points) {
    if (!point.is_array() || point.size() != 2 || !point[0].is_number() || !point[1].is_number()) continue;
    const cv::Point2d corner(point[0].get<double>(), point[1].get<double>());
    if (is_usable(corner.x) && is_usable(corner.y)) corners.push_back(corner);
  }
  return rough_word(corners);
}

/// Collects the words of one picture; an unreadable word may become an ignored one.
class ReadWords {
 public:
  ReadWords(LabelledPicture& picture, bool mends, data::CountedRemarks& remarks)
      : picture_(picture), mends_(mends), remarks_(remarks) {}

  /// `read` may throw Error(data); `rough` then replaces the word.
  void add(const std::function<Word()>& read, const std::function<std::optional<Word>()>& rough, FilePosition place) {
    try {
      picture_.words.push_back(mended(read(), place));
      ++good_;
    } catch (const Error& error) {
      const Error placed(error.kind(), error.where(), error.message(), place);
      auto word = mends_ && error.kind() == ErrorKind::data ? rough() : std::nullopt;
      if (!word) throw placed;
      if (!first_) first_ = placed;
      picture_.words.push_back(std::move(*word));
      waiting_.push_back(placed.what());
    }
  }

  /// Error(data) if words were read, and none of them is valid.
  void finish() {
    if (good_ == 0 && first_) throw *first_;
    for (const auto& mistake : waiting_) {
      remarks_.add(LogLevel::warning,
                   "words cannot be read and count neither way (don't care), because data.on_error is skip", mistake);
    }
  }

 private:
  Word mended(Word word, const FilePosition& place) {
    if (is_simple(word.polygon)) return word;
    if (auto simple = untangled(word.polygon)) {
      remark("polygons cross themselves and were put in order", place);
      word.polygon = std::move(*simple);
      return word;
    }
    const bool has_area = area(convex_around(word.polygon)) >= 1;
    remark(has_area ? "polygons cross themselves and count neither way (don't care)"
                    : "polygons have no area and count neither way (don't care)",
           place);
    if (has_area) word.polygon = convex_around(word.polygon);
    word.ignored = true;
    return word;
  }

  void remark(std::string_view kind, const FilePosition& place) {
    remarks_.add(LogLevel::warning, kind,
                 fmt::format("word {} of {}:{}", picture_.words.size() + 1, place.file, place.line));
  }

  LabelledPicture& picture_;
  bool mends_;
  data::CountedRemarks& remarks_;
  std::int64_t good_ = 0;
  std::optional<Error> first_;
  std::vector<std::string> waiting_;
};

/// The form of most lines of `files`. Error(config) if they belong to another program.
WordForm form_of_files(const std::vector<std::filesystem::path>& files, const std::filesystem::path& folder,
                       const LabelReading& reading) {
  std::optional<WordForm> given;
  for (const auto form : {WordForm::icdar2015, WordForm::mlt, WordForm::icdar2013}) {
    if (reading.labels == name_of(form)) given = form;
  }
  if (given && given != WordForm::icdar2015) return *given;  // lines of another form are errors
  std::map<WordForm, std::int64_t> counts;
  std::map<WordForm, std::string> firsts;
  std::int64_t lines = 0;
  std::optional<Error> foreign;
  for (const auto& file : files) {
    data::for_each_line(file, reading.key, [&](std::string_view line, int number) {
      ++lines;
      if (const auto form = form_of(line)) {
        if (++counts[*form] == 1) firsts[*form] = fmt::format("{}:{} '{}'", file.string(), number, cut_text(line));
      } else if (const auto theirs = foreign_form(line); !theirs.empty() && !foreign) {
        foreign = Error(ErrorKind::config, reading.key, fmt::format("the form of these labels is {}", theirs),
                        {file.string(), number});
      }
    });
  }
  const auto eight = counts[WordForm::icdar2015] + counts[WordForm::mlt];
  if (given) {
    if (2 * counts[WordForm::mlt] > eight) {
      data::report_line(LogLevel::warning,
                        fmt::format("{} of {} lines in {} have a script behind the numbers, as those of mlt; the first "
                                    "is {}; as data.labels is icdar2015, the script is a part of the text",
                                    counts[WordForm::mlt], lines, folder.string(), firsts[WordForm::mlt]));
    }
    return *given;
  }
  if (eight + counts[WordForm::icdar2013] == 0 && foreign) throw *foreign;
  auto form = WordForm::icdar2015;
  if (counts[WordForm::icdar2013] > eight) form = WordForm::icdar2013;
  if (form != WordForm::icdar2013 && 2 * counts[WordForm::mlt] > eight) form = WordForm::mlt;
  if (form != WordForm::icdar2015) {
    log_info(
        "the labels in {} are read as {} ({}): {} of {} lines are such, the first is {}; set data.labels for another "
        "form",
        folder.string(), name_of(form), description_of(form), counts[form], lines, firsts[form]);
  }
  return form;
}

/// What the parser found, in words for users.
std::string json_mistake(const json::exception& error, std::string_view line) {
  constexpr std::size_t kMost = 300;
  constexpr std::string_view kNotJson = "parse error at ";
  std::string_view text = error.what();
  text.remove_prefix(std::min(text.size(), text.find("] ") + 2));  // the number of the exception
  if (!text.starts_with(kNotJson)) return cut_text(text, kMost);
  const bool is_python = line.find("{'") != std::string_view::npos;
  return fmt::format(
      "it is not valid JSON at {}{}", cut_text(text.substr(kNotJson.size()), kMost),
      is_python ? "; it looks like what Python's str() and print() write: write JSON with json.dumps()" : "");
}

/// A line of a list, before its words are read.
struct ListedPicture {
  std::string name;
  json words;
};

ListedPicture listed_picture(std::string_view line) {
  const auto tab = line.find('\t');
  if (tab == std::string_view::npos || tab == 0) {
    fail(ErrorKind::data, kWhere, "a line is a picture's name, a tab and a list of words in JSON, not '{}'{}",
         cut_text(line), hint_of_list(line));
  }
  ListedPicture picture{std::string(line.substr(0, tab)), {}};
  if (picture.name.starts_with("[\"")) {
    fail(ErrorKind::data, kWhere,
         "the name is a list of pictures, '{}', of which PaddleOCR takes one by chance; write a line for each",
         cut_text(picture.name));
  }
  try {
    picture.words = json::parse(line.substr(tab + 1));
  } catch (const json::exception& error) {
    fail(ErrorKind::data, kWhere, "what follows the tab has to be a list of words in JSON: {}",
         json_mistake(error, line));
  }
  if (!picture.words.is_array()) {
    fail(ErrorKind::data, kWhere, "what follows the tab has to be a list of words in JSON, and is {}",
         cut_text(picture.words.dump()));
  }
  return picture;
}

/// Label files of missing pictures.
void remark_lone_labels(const std::filesystem::path& folder, const std::vector<std::filesystem::path>& used,
                        data::CountedRemarks& remarks) {
  std::vector<std::filesystem::path> lone;
  std::error_code code;
  for (std::filesystem::directory_iterator entry(folder, code), end; !code && entry != end; entry.increment(code)) {
    const auto& path = entry->path();
    if (path.extension() == ".txt" && path.filename().string().starts_with("gt_")) lone.push_back(path);
  }
  std::ranges::sort(lone);
  auto sorted = used;
  std::ranges::sort(sorted);
  for (const auto& path : lone) {
    if (std::ranges::binary_search(sorted, path)) continue;
    remarks.add(LogLevel::warning, "label files have no picture and are ignored", path.string());
  }
}

}  // namespace

LabelledPicture parse_label_line(std::string_view line) {
  auto listed = listed_picture(line);
  LabelledPicture picture{.name = std::move(listed.name), .words = {}, .label_file = {}};
  for (std::size_t i = 0; i < listed.words.size(); ++i) picture.words.push_back(word_of(listed.words[i], i + 1));
  return picture;
}

Word parse_icdar_line(std::string_view line, WordForm form) {
  const auto refuse = [&](std::string_view why) {
    fail(ErrorKind::data, kWhere, "a line is {}{}, not '{}'{}", description_of(form), why, cut_text(line),
         hint_of_folder(line, form));
  };
  if (form == WordForm::icdar2013) {
    const auto found = numbers_of_2013(line);
    if (found.numbers.size() < kNumbersOf2013 || found.rest.empty()) refuse(" with four numbers");
    for (const auto number : found.numbers) checked(number, 1);
    const auto left = found.numbers[0], top = found.numbers[1], right = found.numbers[2], bottom = found.numbers[3];
    if (right < left || bottom < top) refuse(" with LEFT up to RIGHT and TOP up to BOTTOM");
    auto text = trimmed(found.rest);
    if (text.size() >= 2 && text.starts_with('"') && text.ends_with('"')) text = text.substr(1, text.size() - 2);
    return {.polygon = {{left, top}, {right, top}, {right, bottom}, {left, bottom}}, .ignored = is_ignored(text)};
  }
  auto found = numbers_before_commas(line, kNumbersOf2015);
  if (found.numbers.size() < kNumbersOf2015) refuse(" with numbers for x and y");
  Word word;
  for (std::size_t i = 0; i < kNumbersOf2015; i += 2) {
    word.polygon.emplace_back(checked(found.numbers[i], 1), checked(found.numbers[i + 1], 1));
  }
  if (form == WordForm::mlt) {
    const auto comma = found.rest.find(',');
    if (comma == std::string_view::npos) refuse(" with a script");
    found.rest.remove_prefix(comma + 1);
  }
  word.ignored = is_ignored(trimmed(found.rest));
  return word;
}

std::vector<LabelledPicture> read_label_file(const std::filesystem::path& file, const LabelReading& reading) {
  if (reading.labels != "auto" && reading.labels != "list") {
    fail(ErrorKind::config, "data.labels",
         "is {}, whose labels are a folder of files gt_NAME.txt, and {} is the file {}; give the folder, or the labels "
         "list",
         reading.labels, reading.key, file.string());
  }
  std::vector<LabelledPicture> pictures;
  data::CountedRemarks remarks;
  data::for_each_line(file, reading.key, [&](std::string_view line, int number) {
    const FilePosition place{file.string(), number};
    reading.bad.try_to([&] {
      try {
        auto listed = listed_picture(line);
        LabelledPicture picture{
            .name = std::move(listed.name), .words = {}, .label_file = file.string(), .line = number};
        ReadWords words(picture, reading.bad.skips(), remarks);
        for (std::size_t i = 0; i < listed.words.size(); ++i) {
          words.add([&] { return word_of(listed.words[i], i + 1); }, [&] { return rough_json_word(listed.words[i]); },
                    place);
        }
        words.finish();
        pictures.push_back(std::move(picture));
      } catch (const Error& error) {
        throw Error(error.kind(), error.where(), error.message(), place);
      }
    });
  });
  remarks.report(file.string());
  return pictures;
}

std::vector<LabelledPicture> read_icdar_folder(const std::filesystem::path& folder,
                                               const std::filesystem::path& pictures, const LabelReading& reading) {
  namespace fs = std::filesystem;
  if (reading.labels == "list") {
    fail(ErrorKind::config, "data.labels", "is list, which is one file for all pictures, and {} is the folder {}",
         reading.key, folder.string());
  }
  data::CountedRemarks remarks;
  std::vector<std::string> paths;
  try {
    paths = data::pictures_in(pictures, data::FolderDepth::itself, reading.key, remarks);
  } catch (const Error& error) {
    fail(ErrorKind::config, reading.key, "the pictures cannot be found: {}", error.message());
  }
  std::vector<LabelledPicture> all;
  std::vector<fs::path> files;
  for (const auto& path : paths) {
    const auto stem = fs::path(path).stem().string();
    const auto usual = folder / ("gt_" + stem + ".txt"), plain = folder / (stem + ".txt");
    const auto file = !fs::exists(usual) && fs::exists(plain) ? plain : usual;
    const bool whole = reading.bad.try_to([&] {
      if (fs::exists(file)) return;
      throw Error(ErrorKind::data, kWhere,
                  fmt::format("the picture {} has no label file gt_{}.txt or {}.txt", path, stem, stem),
                  {file.string()});
    });
    if (!whole) continue;
    all.push_back({.name = fs::path(path).filename().string(), .words = {}, .label_file = file.string()});
    files.push_back(file);
  }
  remark_lone_labels(folder, files, remarks);
  const auto form = form_of_files(files, folder, reading);
  std::vector<LabelledPicture> read;
  for (auto& picture : all) {
    const bool is_read = reading.bad.try_to([&] {
      ReadWords words(picture, reading.bad.skips(), remarks);
      data::for_each_line(picture.label_file, reading.key, [&](std::string_view line, int number) {
        words.add([&] { return parse_icdar_line(line, form); }, [&] { return rough_icdar_word(line, form); },
                  {picture.label_file, number});
      });
      words.finish();
    });
    if (is_read) read.push_back(std::move(picture));
  }
  remarks.report(folder.string());
  return read;
}

}  // namespace lockstep::ocr
