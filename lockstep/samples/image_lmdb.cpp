// The data set image_lmdb: pictures and labels of LMDB databases as samples.
#include <lockstep/base/error.h>
#include <lockstep/data/files/bad_items.h>
#include <lockstep/samples/image_lmdb.h>
#include <lockstep/samples/lmdb_pictures.h>
#include <lockstep/samples/pictures.h>

#include <ATen/ATen.h>

#include <utility>

namespace lockstep::samples {
namespace {

class ImageLmdb final : public Dataset {
 public:
  ImageLmdb(const ImageLmdbOptions& options, ClassList classes, LmdbPictures pictures)
      : options_(options), classes_(std::move(classes)), pictures_(std::move(pictures)) {}

  std::int64_t size() const override { return pictures_.size(); }

  Sample get(std::int64_t index, const Chance&) const override {
    return data::read_or_name_way_out(leaves_out_errors(), [&] { return read(index); });
  }

  Batch collate(std::vector<Sample> samples) const override {
    return collate_pictures(std::move(samples), options_.pictures);
  }
  std::vector<std::string> classes() const override { return classes_.names(); }
  std::vector<std::pair<std::string, std::string>> known_as(std::int64_t index) const override {
    return {{"file", pictures_.picture_path(index)}};
  }
  bool leaves_out_errors() const override { return options_.pictures.on_error == "skip"; }

 private:
  Sample read(std::int64_t index) const {
    Sample sample;
    sample.tensors.emplace(kPictures, to_tensor(pictures_.picture(index, decoding_of(options_.pictures))));
    try {
      add_label(sample, pictures_.label(index), options_.labels, classes_);
    } catch (const Error& error) {
      throw Error(error.kind(), error.where(), fmt::format("{}: {}", pictures_.label_name(index), error.message()));
    }
    sample.texts.emplace(kNames, pictures_.picture_name(index));
    return sample;
  }

  ImageLmdbOptions options_;
  ClassList classes_;
  LmdbPictures pictures_;
};

}  // namespace

void describe(ConfigFields& fields, ImageLmdbOptions& options) {
  fields.field("train", options.train, required(a_path()), "folder of an LMDB database, or of several below it");
  fields.field("eval", options.eval, a_path(), "the same for evaluation; empty: no evaluation");
  describe_labels(fields, options.labels);
  describe_pictures(fields, options.pictures);
}

std::shared_ptr<const Dataset> load_image_lmdb(const ImageLmdbOptions& options, data::Split split) {
  const bool trains = split == data::Split::train;
  if (!trains && options.eval.empty()) return nullptr;
  if (options.labels.label == "class" && options.labels.classes.empty()) {
    fail(ErrorKind::config, "data.classes", "is empty, and data.label is class: give the names of the classes");
  }
  const auto* key = trains ? "data.train" : "data.eval";
  return std::make_shared<ImageLmdb>(options, ClassList(options.labels.classes, "data.classes"),
                                     LmdbPictures(trains ? options.train : options.eval, key));
}

}  // namespace lockstep::samples
