#include <lockstep/data/batch_pool.h>

#include <utility>

namespace lockstep::data {

BatchPool::BatchPool(std::size_t capacity) : shelf_(std::make_shared<Shelf>()) { shelf_->batches.reserve(capacity); }

std::shared_ptr<Batch> BatchPool::take() {
  std::unique_ptr<Batch> batch;
  {
    const std::lock_guard lock(shelf_->mutex);
    if (!shelf_->batches.empty()) {
      batch = std::move(shelf_->batches.back());
      shelf_->batches.pop_back();
    }
  }
  if (!batch) batch = std::make_unique<Batch>();
  const auto give_back = [shelf = shelf_](Batch* pointer) {
    std::unique_ptr<Batch> returned(pointer);
    const std::lock_guard lock(shelf->mutex);
    // Within the reserved capacity push_back does not allocate, and so cannot throw in this deleter.
    if (shelf->batches.size() < shelf->batches.capacity()) shelf->batches.push_back(std::move(returned));
  };
  return {batch.release(), give_back};
}

}  // namespace lockstep::data
