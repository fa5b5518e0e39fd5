// The pool of a loader's batches, which reuses their memory.
#pragma once

#include <lockstep/data/batch.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace lockstep::data {

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
