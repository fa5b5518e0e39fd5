// The batch of a loader: plain memory that a tensor can share.
#pragma once

#include <lockstep/data/aligned.h>
#include <lockstep/data/dataset.h>

#include <cstdint>
#include <vector>

namespace lockstep::data {

/// The pictures of one step on one rank. A plain value; not thread-safe.
struct Batch {
  AlignedVector<float> pixels;        ///< float32, [count, channels, height, width], contiguous
  std::vector<std::int64_t> labels;   ///< int64, [count], each from 0 to the number of classes - 1
  std::vector<std::int64_t> indices;  ///< [count], the records' indices in the data set
  std::int64_t count = 0;             ///< may be 0 (Remainder::exact)
  PictureShape shape;                 ///< shape of one picture
  std::int64_t epoch = 0;             ///< counted from 0
  std::int64_t step = 0;              ///< step in the epoch, counted from 0
  std::int64_t global_count = 0;      ///< records of this step over all ranks
};

}  // namespace lockstep::data
