// The pool of a loader's batches, which reuses their memory.
#pragma once

#include <lockstep/data/batch.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace lockstep::data {

/// Returns batches, which come back to the pool when their last owner releases them, so that their memory is reused.
/// Batches may outlive the pool. Thread-safe.
class BatchPool {
 public:
  /// Keeps at most `capacity` unused batches.
  explicit BatchPool(std::size_t capacity);

  /// A batch, new or reused; its contents are unspecified.
  std::shared_ptr<Batch> take();

 private:
  struct Shelf {
    std::mutex mutex;
    std::vector<std::unique_ptr<Batch>> batches;
  };

  std::shared_ptr<Shelf> shelf_;
};

}  // namespace lockstep::data
