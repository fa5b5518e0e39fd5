// A ring exchange of module buffers packed as bytes, in each step: send to the next rank, receive from the previous.
#include <lockstep/comm/collectives.h>
#include <lockstep/train/recovery/buffer_ring.h>

#include <torch/torch.h>

#include <utility>

namespace lockstep::train {
namespace {

constexpr int kTag = 1;

at::Tensor bytes_of(const at::Tensor& tensor) { return tensor.contiguous().view({-1}).view(at::kByte); }

}  // namespace

BufferRing::BufferRing(std::shared_ptr<torch::nn::Module> module, const Group& group)
    : module_(std::move(module)), group_(group) {
  copy_ = pack();
}

at::Tensor BufferRing::pack() const {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> parts;
  for (const auto& buffer : module_->buffers()) parts.push_back(bytes_of(buffer));
  return torch::cat(parts);
}

void BufferRing::load(StateSource& state) {
  const torch::NoGradGuard no_grad;
  const auto own_key = buffers_key(group_.rank()), copy_key = buffers_key(rank_before(group_));
  if (!state.outline().contains(own_key) || !state.outline().contains(copy_key)) return;
  const auto own = state.read(own_key);
  std::int64_t offset = 0;
  for (auto& buffer : module_->buffers()) {
    const auto bytes = static_cast<std::int64_t>(buffer.nbytes());
    // A copy, as its place among the bytes need not be aligned.
    const auto part = own.narrow(0, offset, bytes).clone();
    buffer.copy_(part.view(buffer.scalar_type()).view(buffer.sizes()));
    offset += bytes;
  }
  copy_ = state.read(copy_key).clone();
}

void BufferRing::begin_step() {
  before_ = pack();
  in_step_ = true;
  started_ = finished_ = false;
}

void BufferRing::start() {
  sent_ = pack();
  received_ = torch::empty_like(sent_);
  receiving_ = receive_async(received_, group_, rank_before(group_), kTag);
  sending_ = send_async(sent_, group_, (group_.rank() + 1) % group_.size(), kTag);
  started_ = true;
}

void BufferRing::finish() {
  if (!started_ || finished_) return;
  receiving_.wait();
  sending_.wait();
  finished_ = true;
}

void BufferRing::end_step() {
  copy_ = received_;
  in_step_ = false;
}

void BufferRing::synchronized() { copy_ = pack(); }

void BufferRing::add_to(KeptParts& kept) const {
  kept.last.own[kOwnBuffers] = in_step_ ? before_ : pack();
  kept.last.copy[kOwnBuffers] = copy_;
  if (!in_step_ || !finished_) return;
  // Parts of the next step exist only if the sharded optimizer also has its part of that step.
  if (!kept.divided.empty() && !kept.next) return;
  if (!kept.next) kept.next.emplace();
  kept.next->own[kOwnBuffers] = sent_;
  kept.next->copy[kOwnBuffers] = received_;
}

}  // namespace lockstep::train
