// A thread that holds one batch ahead of the consumer, copied from pinned memory to the device on its own stream.
#include <lockstep/comm/device/lane.h>
#include <lockstep/train/resources/device_feed.h>

#include <ATen/core/Tensor.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>
#include <vector>

namespace lockstep::train {

DeviceFeed::DeviceFeed(std::unique_ptr<samples::Batches> source, Move move)
    : source_(std::move(source)), move_(std::move(move)) {}

DeviceFeed::~DeviceFeed() { end(); }

void DeviceFeed::end() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void DeviceFeed::start(std::int64_t epoch, std::int64_t step) {
  end();
  source_->start(epoch, step);
  ahead_.reset();
  ended_ = false;
  left_out_ = 0;
  thread_ = std::thread([this] { run(); });
}

DeviceFeed::Taken DeviceFeed::take() {
  Taken taken;
  try {
    taken.batch = source_->next();
    if (taken.batch) taken.arrived = move_(*taken.batch);
  } catch (...) {
    taken.error = std::current_exception();
  }
  taken.left_out = source_->left_out();
  return taken;
}

void DeviceFeed::run() {
  for (;;) {
    auto taken = take();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_ || !ahead_; });
    if (ended_) return;
    const bool is_last = taken.error || !taken.batch;
    ahead_ = std::move(taken);
    ended_ = is_last;
    changed_.notify_all();
    if (is_last) return;
  }
}

std::optional<samples::Batch> DeviceFeed::next() {
  Taken taken;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_ || ahead_; });
    if (!ahead_) return std::nullopt;
    taken = *std::exchange(ahead_, std::nullopt);
  }
  changed_.notify_all();
  left_out_ = taken.left_out;
  if (taken.error) std::rethrow_exception(taken.error);
  if (taken.arrived) taken.arrived();
  return std::move(taken.batch);
}

DeviceFeed::Move move_to(const c10::Device& device) {
  const auto lane = std::make_shared<lockstep::detail::Lane>(device);
  return [lane, device](samples::Batch& batch) -> DeviceFeed::Arrived {
    std::vector<at::Tensor> moved;
    const auto move = [&](at::Tensor& tensor) {
      tensor = tensor.pin_memory().to(device, /*non_blocking=*/true);
      moved.push_back(tensor);
    };
    const auto copies = lane->run({}, [&] {
      const c10::StreamGuard on_lane(lane->stream());
      for (auto& [name, tensor] : batch.tensors) move(tensor);
      for (auto& [name, list] : batch.lists) {
        for (auto& tensor : list) move(tensor);
      }
    });
    return [copies, device, moved = std::move(moved)] {
      copies->order_current_stream();
      const auto current = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
      for (const auto& tensor : moved) tensor.record_stream(current);
    };
  };
}

}  // namespace lockstep::train
