// Shared code of data sets of picture files: options, decoding, collation, class names and labels.
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/text.h>
#include <lockstep/base/utf8.h>
#include <lockstep/data/files/items.h>
#include <lockstep/samples/pictures.h>

#include <ATen/ATen.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace lockstep::samples {

void describe_pictures(ConfigFields& fields, PictureOptions& options) {
  fields.field("color", options.color, one_of({"rgb", "grey"}), "channels of a decoded picture: three, or one");
  fields.field("orientation", options.orientation, anything(), "turn pictures by their EXIF orientation");
  fields.field("collate", options.collate, one_of({"stack", "pad", "list"}),
               "pictures of a batch: stack needs equal sizes, pad fills up with zeros right and below, list keeps them "
               "apart");
  describe_picture_limits(fields, options.max_pixels, options.max_scans);
  data::describe_on_error(fields, options.on_error);
}

void describe_picture_limits(ConfigFields& fields, std::int64_t& max_pixels, std::int64_t& max_scans) {
  fields.field("max_pixels", max_pixels, between(1, 4e9), "pictures with more, by their headers, are refused unread");
  fields.field("max_scans", max_scans, between(1, 1e9),
               "JPEGs with more scans are refused unread: each goes over the whole picture");
}

data::DecodeOptions decoding_of(const PictureOptions& options) {
  return {.channels = options.color == "grey" ? 1 : 3,
          .orientation = options.orientation,
          .max_pixels = options.max_pixels,
          .max_scans = options.max_scans};
}

namespace {

std::string name_of(const Sample& sample) {
  const auto name = sample.texts.find(kNames);
  return name == sample.texts.end() ? "a picture" : name->second;
}

// The message names keys and files, which the stacking function does not have.
void require_equal_sizes(const std::vector<Sample>& samples) {
  const auto sizes_of = [](const Sample& sample) {
    const auto found = sample.tensors.find(kPictures);
    return found == sample.tensors.end() ? at::IntArrayRef() : found->second.sizes();
  };
  const auto sizes = sizes_of(samples.front());
  for (const auto& sample : samples) {
    if (sizes_of(sample) == sizes) continue;
    fail(ErrorKind::data, "data.collate",
         "is stack, which needs pictures of equal sizes: {} is [{}] after the transforms, {} is [{}]; add resize with "
         "{{size: [HEIGHT, WIDTH]}} or center_crop to the transforms, or set data.collate to pad",
         name_of(samples.front()), fmt::join(sizes, ", "), name_of(sample), fmt::join(sizes_of(sample), ", "));
  }
}

}  // namespace

Batch collate_pictures(std::vector<Sample> samples, const PictureOptions& options) {
  if (options.collate == "stack") require_equal_sizes(samples);
  const auto how = options.collate == "pad" ? Collate::pad : options.collate == "list" ? Collate::list : Collate::stack;
  return collate(std::move(samples), {{kPictures, how}});
}

at::Tensor to_tensor(data::Picture picture) {
  const auto owner = std::make_shared<std::vector<std::uint8_t>>(std::move(picture.pixels));
  return at::from_blob(
      owner->data(), {picture.height, picture.width, picture.channels}, [owner](void*) {}, at::kByte);
}

ClassList::ClassList(std::vector<std::string> names, std::string_view key) : names_(std::move(names)) {
  auto sorted = names_;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end()) fail(ErrorKind::config, key, "has the class '{}' twice", cut_text(*twice));
}

std::int64_t ClassList::number_of(std::string_view name) const {
  const auto found = std::ranges::find(names_, name);
  if (found != names_.end()) return found - names_.begin();
  const auto alike = std::ranges::find_if(names_, [&](const auto& known) { return differ_by_accents(known, name); });
  fail(ErrorKind::data, "data", "there is no class '{}' among the {} of data.classes or of training{}", cut_text(name),
       names_.size(),
       alike == names_.end() ? did_you_mean(name, names_)
                             : fmt::format("; there is '{}', whose accents are written in another way (one composed "
                                           "character, or a letter and a mark): write both in one way",
                                           cut_text(*alike)));
}

void describe_labels(ConfigFields& fields, LabelOptions& options) {
  fields.field(
      "label", options.label, one_of({"number", "class", "text"}),
      "what a label is: the number of a class from 0, the name of a class, or a text for a task that reads it");
  fields.field(
      "classes", options.classes, anything(),
      "label class: names in the order of their numbers; empty: those of the training labels, sorted by bytes");
  fields.field("num_classes", options.num_classes, between(0, 1e9), "label number: labels are below it; 0: any");
}

void add_label(Sample& sample, std::string_view label, const LabelOptions& options, const ClassList& classes) {
  if (options.label == "text") {
    sample.texts.emplace(kLabels, label);
    return;
  }
  std::int64_t number = 0;
  if (options.label == "class") {
    number = classes.number_of(label);
  } else {
    const auto parsed = parse_integer(label);
    if (!parsed || *parsed < 0) {
      fail(ErrorKind::data, "data",
           "the label '{}' is not a whole number from 0 on; set data.label to class for names, to text for texts",
           cut_text(label));
    }
    if (options.num_classes > 0 && *parsed >= options.num_classes) {
      fail(ErrorKind::data, "data", "the label {} is outside: data.num_classes is {}, so labels are from 0 to {}",
           *parsed, options.num_classes, options.num_classes - 1);
    }
    number = *parsed;
  }
  sample.tensors.emplace(kLabels, at::scalar_tensor(number, at::kLong));
}

std::filesystem::path in_folder(const std::filesystem::path& folder, std::string_view name) {
  return folder / std::filesystem::path(name);  // an absolute name replaces it
}

}  // namespace lockstep::samples
