// A data set held in memory as one block of bytes.
#pragma once

#include <lockstep/data/pictures.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep::data {

/// The records of one split. Record i has the i-th `channels * height * width` bytes (CHW) of `pixels`, and labels[i].
struct SplitContents {
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;
};

/// Makes a data set from contents in memory. Error(data) when there are no records, when the number of bytes does not
/// match the number of labels, or when a label is not below `num_classes`.
std::shared_ptr<const Pictures> make_memory_pictures(PictureShape shape, int num_classes, SplitContents contents);

}  // namespace lockstep::data
