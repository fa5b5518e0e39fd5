// A data set held in memory as one block of bytes.
#pragma once

#include <lockstep/data/dataset.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep::data {

/// The records of one split. Record i is `channels * height * width` bytes (CHW) from there times i, and labels[i].
struct SplitContents {
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;
};

/// Error(data) when there is no record, the bytes do not fit the number of labels, or a label is not below
/// `num_classes`.
std::shared_ptr<const Dataset> make_memory_dataset(PictureShape shape, int num_classes, SplitContents contents);

}  // namespace lockstep::data
