#include <lockstep/comm/collectives.h>
#include <lockstep/mirrored/coalesced_broadcast.h>

#include <torch/torch.h>

#include <cstdint>
#include <utility>

namespace lockstep::mirrored {
namespace {

constexpr std::int64_t kAlignment = 64;
constexpr std::int64_t kBroadcastBytes = 32 << 20;

std::int64_t padded_bytes(const at::Tensor& tensor) {
  const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::int64_t total_bytes(const std::vector<at::Tensor>& tensors) {
  std::int64_t total = 0;
  for (const auto& tensor : tensors) total += padded_bytes(tensor);
  return total;
}

}  // namespace

CoalescedBroadcast::CoalescedBroadcast(std::vector<at::Tensor> tensors, const Group& group)
    : group_(group), tensors_(std::move(tensors)) {
  bytes_ = allocate(group_, total_bytes(tensors_), static_cast<int>(at::kByte));
  std::int64_t offset = 0;
  for (const auto& tensor : tensors_) {
    const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
    packed_.push_back(bytes_.narrow(0, offset, bytes).view(tensor.scalar_type()).view(tensor.sizes()));
    offset += padded_bytes(tensor);
  }
}

void CoalescedBroadcast::start(bool check) {
  torch::NoGradGuard no_grad;
  if (group_.rank() == 0) {
    for (std::size_t i = 0; i < tensors_.size(); ++i) packed_[i].copy_(tensors_[i]);
  }
  work_ = broadcast_async(bytes_, check ? group_ : group_.unchecked(), 0);
}

void CoalescedBroadcast::finish() {
  work_.wait();
  if (group_.rank() == 0) return;
  torch::NoGradGuard no_grad;
  // variable_data: the graph of another forward may have saved the tensor, as BatchNorm does, and its backward would
  // fail if the tensor's version changed.
  for (std::size_t i = 0; i < tensors_.size(); ++i) tensors_[i].variable_data().copy_(packed_[i]);
}

void broadcast_all(const std::vector<at::Tensor>& tensors, const Group& group) {
  std::vector<at::Tensor> piece;
  auto send = [&] {
    if (piece.empty()) return;
    CoalescedBroadcast broadcast(std::exchange(piece, {}), group);
    broadcast.start();
    broadcast.finish();
  };
  std::int64_t bytes = 0;
  for (const auto& tensor : tensors) {
    if (bytes + padded_bytes(tensor) > kBroadcastBytes) {
      send();
      bytes = 0;
    }
    piece.push_back(tensor);
    bytes += padded_bytes(tensor);
  }
  send();
}

}  // namespace lockstep::mirrored
