// The data set image_list: a list parsed at the start, whose pictures are decoded on access to a sample.
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/text.h>
#include <lockstep/data/files/items.h>
#include <lockstep/data/files/mapped_file.h>
#include <lockstep/data/files/text_files.h>
#include <lockstep/data/pictures.h>
#include <lockstep/samples/changed_dataset.h>
#include <lockstep/samples/pictures.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <set>
#include <utility>

namespace lockstep::samples {
namespace {

struct ListedPicture {
  std::string name;
  Sample label;  // without the picture
};

class ImageList final : public Dataset {
 public:
  ImageList(std::vector<ListedPicture> pictures, ClassList classes, const ImageListOptions& options)
      : pictures_(std::move(pictures)), classes_(std::move(classes)), options_(options) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(pictures_.size()); }

  Sample get(std::int64_t index, const Chance&) const override {
    const auto& [name, label] = pictures_[static_cast<std::size_t>(index)];
    const auto path = in_folder(options_.root, name).string();
    Sample sample = label;
    sample.tensors.emplace(kPictures, to_tensor(data::read_or_name_way_out(leaves_out_errors(), [&] {
                             return data::read_picture(path, decoding_of(options_.pictures));
                           })));
    sample.texts.emplace(kNames, path);
    return sample;
  }

  Batch collate(std::vector<Sample> samples) const override {
    return collate_pictures(std::move(samples), options_.pictures);
  }
  std::vector<std::string> classes() const override { return classes_.names(); }
  std::vector<std::pair<std::string, std::string>> known_as(std::int64_t index) const override {
    return {{"file", in_folder(options_.root, pictures_[static_cast<std::size_t>(index)].name).string()}};
  }
  bool leaves_out_errors() const override { return options_.pictures.on_error == "skip"; }

 private:
  std::vector<ListedPicture> pictures_;
  ClassList classes_;
  ImageListOptions options_;
};

struct ListLine {
  std::string_view name;
  std::string_view label;
};

char letter_of(const std::string& separator) { return separator == "tab" ? '\t' : separator == "comma" ? ',' : ' '; }

/// A guess of the separator of name and label in a line without the configured separator; empty: no guess.
std::string_view other_separator(std::string_view line) {
  for (const auto& [name, letter] : {std::pair("tab", '\t'), std::pair("comma", ','), std::pair("space", ' ')}) {
    const auto at = line.rfind(letter);
    if (at != std::string_view::npos && data::has_picture_name(line.substr(0, at))) return name;
  }
  return {};
}

/// Error(data) without a position.
ListLine split_line(std::string_view line, const std::string& separator) {
  const char letter = letter_of(separator);
  const auto at = separator == "space" ? line.rfind(letter) : line.find(letter);
  if (at == std::string_view::npos || at == 0 || at + 1 == line.size()) {
    const auto other = other_separator(line);
    fail(ErrorKind::data, "data", "a line is a picture's name, a {} and its label, not '{}'; {}", separator,
         cut_text(line),
         other.empty() || other == separator ? "data.separator can be tab, comma or space"
                                             : fmt::format("there is a {0}: set data.separator to {0}", other));
  }
  return {line.substr(0, at), line.substr(at + 1)};
}

/// Error(data) for a label that contains the next line, because a line break is missing.
void refuse_joined_lines(std::string_view label, const std::string& separator) {
  const auto at = label.find(letter_of(separator));
  if (at == std::string_view::npos || !data::has_picture_name(label.substr(0, at))) return;
  fail(ErrorKind::data, "data", "the label '{}' has the name of another picture; is there a line break missing?",
       cut_text(label));
}

std::string_view text_of(const data::MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

/// The names of the classes in the training list, sorted; another function reports invalid lines.
std::vector<std::string> classes_in(const ImageListOptions& options) {
  std::set<std::string, std::less<>> names;
  data::for_each_line(options.train, "data.train", [&](std::string_view line, int) {
    const char letter = letter_of(options.separator);
    const auto at = letter == ' ' ? line.rfind(letter) : line.find(letter);
    if (at != std::string_view::npos && at + 1 < line.size()) names.emplace(line.substr(at + 1));
  });
  return {names.begin(), names.end()};
}

}  // namespace

void describe(ConfigFields& fields, ImageListOptions& options) {
  fields.field("root", options.root, a_path(), "folder that the names in the lists are relative to");
  fields.field("train", options.train, required(a_path()),
               "list of the training pictures: a line each, name and label");
  fields.field("eval", options.eval, a_path(), "the same for evaluation; empty: no evaluation");
  fields.field("separator", options.separator, one_of({"tab", "comma", "space"}),
               "between name and label: the first tab or comma of a line, or its last space");
  describe_labels(fields, options.labels);
  describe_sampling(fields, options.sampling);
  describe_pictures(fields, options.pictures);
}

std::shared_ptr<const Dataset> load_image_list(const ImageListOptions& options, data::Split split) {
  const bool trains = split == data::Split::train;
  if (!trains && options.eval.empty()) return nullptr;
  if (options.sampling == "balanced" && options.labels.label == "text") {
    fail(ErrorKind::config, "data.sampling", "balanced is for classes, and data.label is text; remove one");
  }
  const auto& list = trains ? options.train : options.eval;
  const data::MappedFile file(list, trains ? "data.train" : "data.eval");
  data::check_encoding(text_of(file), list);
  const bool finds_classes = options.labels.label == "class" && options.labels.classes.empty();
  const ClassList classes(finds_classes ? classes_in(options) : options.labels.classes, "data.classes");
  std::vector<ListedPicture> pictures;
  std::int64_t lines = 0;
  data::BadItems bad(options.pictures.on_error == "skip", "lines of " + list);
  data::for_each_line(text_of(file), [&](std::string_view line, int number) {
    ++lines;
    bad.try_to([&] {
      try {
        const auto [name, label] = split_line(line, options.separator);
        if (options.labels.label != "text") refuse_joined_lines(label, options.separator);
        ListedPicture picture{std::string(name), {}};
        add_label(picture.label, label, options.labels, classes);
        pictures.push_back(std::move(picture));
      } catch (const Error& error) {
        throw Error(error.kind(), error.where(), error.message(), {list, number});
      }
    });
  });
  bad.report(lines);
  if (lines == 0) fail(ErrorKind::config, trains ? "data.train" : "data.eval", "the list {} has no lines", list);
  std::vector<std::int64_t> labels;
  for (const auto& picture : pictures) {
    const auto label = picture.label.tensors.find(kLabels);
    if (label != picture.label.tensors.end()) labels.push_back(label->second.item<std::int64_t>());
  }
  return with_sampling(std::make_shared<ImageList>(std::move(pictures), classes, options), options.sampling, split,
                       labels);
}

}  // namespace lockstep::samples
