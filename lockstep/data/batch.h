// The batches of a loader: plain memory that a tensor can share.
#pragma once

#include <lockstep/data/aligned.h>
#include <lockstep/data/dataset.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace lockstep::data {

struct Batch {
  AlignedVector<float> pixels;        ///< count x shape (NCHW), contiguous
  std::vector<std::int64_t> labels;   ///< count
  std::vector<std::int64_t> indices;  ///< count; the records' places in the data set
  std::int64_t count = 0;             ///< may be 0 (Remainder::exact)
  PictureShape shape;                 ///< of one picture
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  std::int64_t global_count = 0;  ///< records of this step over all ranks
};

/// Lends batches and takes them back when their last owner releases them, so that their memory is reused. Batches may
/// outlive the pool. Thread-safe.
class BatchPool {
 public:
  /// At most `capacity` batches are kept for later.
  explicit BatchPool(std::size_t capacity);

  /// A batch with the contents of some earlier one.
  std::shared_ptr<Batch> take();

 private:
  struct Shelf {
    std::mutex mutex;
    std::vector<std::unique_ptr<Batch>> batches;
  };

  std::shared_ptr<Shelf> shelf_;
};

}  // namespace lockstep::data
