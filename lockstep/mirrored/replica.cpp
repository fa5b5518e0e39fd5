// The list of a module's tensors, the comparison of its text between ranks, and broadcasts in packed pieces of 32 MB.
#include <lockstep/mirrored/replica.h>

#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/texts.h>
#include <lockstep/mirrored/flat_memory.h>
#include <lockstep/mirrored/parameter_layout.h>

#include <ATen/MemoryOverlap.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <unordered_set>
#include <utility>

namespace lockstep::mirrored {
namespace {

constexpr std::string_view kPlace = "data_parallel";

std::vector<NamedTensor> each_once(const torch::OrderedDict<std::string, at::Tensor>& tensors, std::string_view what) {
  std::vector<NamedTensor> unique;
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const auto& item : tensors) {
    const at::Tensor& tensor = item.value();
    if (!tensor.defined() || !seen.insert(tensor.unsafeGetTensorImpl()).second) continue;
    if (tensor.layout() != at::kStrided) {
      fail(ErrorKind::unsupported, kPlace, "{} \"{}\" is not dense; only dense tensors can be kept equal between ranks",
           what, item.key());
    }
    if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes) {
      fail(ErrorKind::unsupported, kPlace, "elements of {} \"{}\" share memory (it was expanded); make it contiguous",
           what, item.key());
    }
    unique.push_back({item.key(), tensor});
  }
  return unique;
}

void require_one_device(const std::vector<NamedTensor>& tensors) {
  for (const auto& each : tensors) {
    if (each.tensor.device() == tensors.front().tensor.device()) continue;
    fail(ErrorKind::unsupported, kPlace, "\"{}\" is on {} and \"{}\" on {}; a module must be on one device",
         tensors.front().name, tensors.front().tensor.device().str(), each.name, each.tensor.device().str());
  }
}

std::string describe(const NamedTensor& named, std::string_view what) {
  const at::Tensor& tensor = named.tensor;
  return fmt::format("{} \"{}\": {} [{}], strides [{}]{}", what, named.name, at::toString(tensor.scalar_type()),
                     fmt::join(tensor.sizes(), ", "), fmt::join(tensor.strides(), ", "),
                     tensor.requires_grad() ? ", requires_grad" : "");
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

Replica replica_of(const torch::nn::Module& module) {
  Replica replica{each_once(module.named_parameters(), "parameter"), each_once(module.named_buffers(), "buffer")};
  for (const auto& parameter : replica.parameters) {
    if (parameter.tensor.requires_grad() && parameter.tensor.is_complex()) {
      fail(ErrorKind::unsupported, kPlace,
           "parameter \"{}\" is complex; train torch::view_as_real of it as a real parameter instead", parameter.name);
    }
  }
  require_one_device(replica.parameters);
  require_one_device(replica.buffers);
  return replica;
}

std::string describe(const Replica& replica, std::string_view options) {
  std::string text(options);
  for (const auto& parameter : replica.parameters) text += '\n' + describe(parameter, "parameter");
  for (const auto& buffer : replica.buffers) text += '\n' + describe(buffer, "buffer");
  return text;
}

void require_same(const std::string& description, const Group& group) {
  const std::vector<std::string> texts = gather_texts(description, group);
  const std::vector<std::string_view> first = lines_of(texts[0]);
  std::vector<std::vector<std::string_view>> others;
  std::size_t longest = first.size();
  for (const auto& text : texts) {
    others.push_back(lines_of(text));
    longest = std::max(longest, others.back().size());
  }
  const auto line_at = [](const std::vector<std::string_view>& lines, std::size_t i) {
    return i < lines.size() ? lines[i] : std::string_view("nothing more");
  };
  for (std::size_t i = 0; i < longest; ++i) {
    std::vector<std::size_t> ranks;
    for (std::size_t rank = 1; rank < others.size(); ++rank) {
      if (line_at(others[rank], i) != line_at(first, i)) ranks.push_back(rank);
    }
    if (ranks.empty()) continue;
    fail(ErrorKind::mismatch, kPlace,
         "all ranks must build the same module with the same options; rank 0 has {}, but rank {} has {}{}",
         line_at(first, i), ranks[0], line_at(others[ranks[0]], i),
         ranks.size() > 1 ? fmt::format(" (differing from rank 0: ranks {})", fmt::join(ranks, ", ")) : "");
  }
}

namespace {

constexpr std::int64_t kBroadcastBytes = 32 << 20;

std::int64_t padded_bytes(const at::Tensor& tensor) {
  return round_up_to_line(static_cast<std::int64_t>(tensor.nbytes()), 1);
}

std::int64_t total_bytes(const std::vector<at::Tensor>& tensors) {
  std::int64_t total = 0;
  for (const auto& tensor : tensors) total += padded_bytes(tensor);
  return total;
}

}  // namespace

CoalescedBroadcast::CoalescedBroadcast(std::vector<at::Tensor> tensors, const Group& group)
    : group_(group), tensors_(std::move(tensors)) {
  const auto first = tensors_.empty() ? at::Tensor() : tensors_.front();
  bytes_ = group_memory(group_, total_bytes(tensors_), static_cast<int>(at::kByte), first);
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
