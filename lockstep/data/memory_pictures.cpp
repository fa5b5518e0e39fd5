// A data set whose records are slices of one block of bytes, with checks of sizes and labels.
#include <lockstep/base/error.h>
#include <lockstep/data/memory_pictures.h>

#include <algorithm>
#include <cassert>
#include <utility>

namespace lockstep::data {
namespace {

class MemoryPictures final : public Pictures {
 public:
  MemoryPictures(PictureShape shape, int num_classes, SplitContents contents)
      : shape_(shape), num_classes_(num_classes), contents_(std::move(contents)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(contents_.labels.size()); }
  PictureShape shape() const override { return shape_; }
  int num_classes() const override { return num_classes_; }

  Record operator[](std::int64_t index) const override {
    assert(0 <= index && index < size());
    const auto i = static_cast<std::size_t>(index);
    const std::size_t bytes = picture_size(shape_);
    return {std::span(contents_.pixels).subspan(i * bytes, bytes), contents_.labels[i]};
  }

 private:
  PictureShape shape_;
  int num_classes_;
  SplitContents contents_;
};

}  // namespace

std::shared_ptr<const Pictures> make_memory_pictures(PictureShape shape, int num_classes, SplitContents contents) {
  const std::size_t records = contents.labels.size();
  if (records == 0) fail(ErrorKind::data, "data", "a data set needs at least one record");
  if (contents.pixels.size() != records * picture_size(shape)) {
    fail(ErrorKind::data, "data", "{} records of {} x {} x {} need {} bytes, not {}", records, shape.channels,
         shape.height, shape.width, records * picture_size(shape), contents.pixels.size());
  }
  const auto bad = std::find_if(contents.labels.begin(), contents.labels.end(),
                                [&](std::uint8_t label) { return label >= num_classes; });
  if (bad != contents.labels.end()) {
    fail(ErrorKind::data, "data", "record {}: label {} is not below the {} classes", bad - contents.labels.begin(),
         *bad, num_classes);
  }
  return std::make_shared<MemoryPictures>(shape, num_classes, std::move(contents));
}

}  // namespace lockstep::data
