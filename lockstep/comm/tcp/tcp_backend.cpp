// The tcp backend: connections between all pairs of ranks, plain or with TLS 1.3, and one thread that serves them while
// no rank's call does.
#include <lockstep/comm/backend.h>
#include <lockstep/comm/tcp/links.h>
#include <lockstep/comm/tensor_reduction.h>

#include <ATen/ops/empty.h>

#include <cstddef>
#include <cstring>
#include <utility>

namespace lockstep::detail {
namespace {

using tcp::Exchange;
using tcp::Schedule;

class TcpBackend : public NetworkBackend {
 public:
  explicit TcpBackend(const BackendContext& context)
      : NetworkBackend(context.rank, context.size),
        timeout_(context.timeout),
        progress_(context.progress),
        links_(tcp::meet(context)) {}

  ~TcpBackend() override {
    if (links_.busy()) links_.abort();
  }

  std::string_view name() const override { return "tcp"; }
  bool holds_tensors() const override { return true; }

  Pending combine(ResultOf kind, const at::Tensor& output, const at::Tensor& input,
                  const std::vector<std::vector<RankRange>>& brought, int root, ReduceOp op, const Call&) override {
    return start(Schedule::of(network_call(kind, rank_, root, brought, input, output, op)), {output, input});
  }

  // Along a binary tree with root `root`: a rank receives from the rank without its lowest bit, and sends to its
  // children.
  Pending broadcast(at::Tensor& tensor, int root, const Call&) override {
    const int place = (rank_ - root + size_) % size_;
    const auto rank_at = [&](int other) { return (other + root) % size_; };
    const auto all = memory(tensor);
    std::vector<Exchange> exchanges;
    int lowest = 1;
    while (lowest < size_ && (place & lowest) == 0) lowest *= 2;
    if (place != 0) exchanges.push_back({.receives = {{all.data, all.bytes, rank_at(place - lowest)}}, .sends = {}});
    Exchange& passed_on = exchanges.emplace_back();
    for (int step = lowest / 2; step > 0; step /= 2) {
      if (place + step < size_) passed_on.sends.push_back({all.data, all.bytes, rank_at(place + step)});
    }
    return start(Schedule::of(std::move(exchanges)), {tensor});
  }

  Pending all_gather(at::Tensor& output, const at::Tensor& input, const Call&) override {
    const auto mine = memory(input);
    Exchange exchange;
    for (const int peer : peers()) {
      exchange.receives.push_back({slice(output, peer), mine.bytes, peer});
      exchange.sends.push_back({mine.data, mine.bytes, peer});
    }
    copy(slice(output, rank_), mine);
    return start(Schedule::of({std::move(exchange)}), {output, input});
  }

  Pending all_to_all(at::Tensor& output, const at::Tensor& input, const Call&) override {
    const auto bytes = memory(output).bytes / static_cast<std::size_t>(size_);
    Exchange exchange;
    for (const int peer : peers()) {
      exchange.receives.push_back({slice(output, peer), bytes, peer});
      exchange.sends.push_back({slice(input, peer), bytes, peer});
    }
    copy(slice(output, rank_), {slice(input, rank_), bytes});
    return start(Schedule::of({std::move(exchange)}), {output, input});
  }

  Pending gather(at::Tensor* output, const at::Tensor& input, int root, const Call&) override {
    const auto mine = memory(input);
    Exchange exchange;
    if (output == nullptr) {
      exchange.sends.push_back({mine.data, mine.bytes, root});
    } else {
      for (const int peer : peers()) exchange.receives.push_back({slice(*output, peer), mine.bytes, peer});
      copy(slice(*output, rank_), mine);
    }
    return start(Schedule::of({std::move(exchange)}), {output != nullptr ? *output : at::Tensor(), input});
  }

  Pending scatter(at::Tensor& output, const at::Tensor* input, int root, const Call&) override {
    const auto mine = memory(output);
    Exchange exchange;
    if (input == nullptr) {
      exchange.receives.push_back({mine.data, mine.bytes, root});
    } else {
      for (const int peer : peers()) exchange.sends.push_back({slice(*input, peer), mine.bytes, peer});
      copy(mine.data, {slice(*input, rank_), mine.bytes});
    }
    return start(Schedule::of({std::move(exchange)}), {output, input != nullptr ? *input : at::Tensor()});
  }

  Pending send(const at::Tensor& tensor, int destination, int tag, const Call&) override {
    const auto all = memory(tensor);
    return start_message(tag, {.receives = {}, .sends = {{all.data, all.bytes, destination}}}, tensor);
  }

  Pending receive(at::Tensor& tensor, int source, int tag, const Call&) override {
    const auto all = memory(tensor);
    return start_message(tag, {.receives = {{all.data, all.bytes, source}}, .sends = {}}, tensor);
  }

  // Each step doubles the number of ranks whose arrival a rank has received, directly or indirectly.
  Pending barrier(const Call&) override {
    const auto bytes = at::empty({2}, at::kByte);
    bytes.zero_();
    auto* byte = static_cast<std::byte*>(bytes.data_ptr());
    std::vector<Exchange> exchanges;
    for (int step = 1; step < size_; step *= 2) {
      exchanges.push_back(
          {.receives = {{byte + 1, 1, (rank_ - step + size_) % size_}}, .sends = {{byte, 1, (rank_ + step) % size_}}});
    }
    return start(Schedule::of(std::move(exchanges)), {bytes});
  }

  std::vector<std::string> exchange(const std::string& fingerprint, const Call& call) override {
    const auto length = static_cast<std::int64_t>(fingerprint.size());
    const auto mine = at::empty({length}, at::kByte);
    auto all = at::empty({size_ * length}, at::kByte);
    std::memcpy(mine.data_ptr(), fingerprint.data(), fingerprint.size());
    wait_in(progress_, *all_gather(all, mine, call), *this, timeout_);
    std::vector<std::string> texts;
    const auto* text = static_cast<const char*>(all.data_ptr());
    for (int rank = 0; rank < size_; ++rank) texts.emplace_back(text + rank * length, fingerprint.size());
    return texts;
  }

  void abort() noexcept override { links_.abort(); }

 private:
  struct Memory {
    std::byte* data;
    std::size_t bytes;
  };

  // Only for data to send: it is not written.
  static Memory memory(const at::Tensor& tensor) {
    return {static_cast<std::byte*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.nbytes())};
  }

  std::byte* slice(const at::Tensor& tensor, int rank) const {
    const auto all = memory(tensor);
    return all.data + static_cast<std::size_t>(rank) * (all.bytes / static_cast<std::size_t>(size_));
  }

  static void copy(std::byte* to, const Memory& from) {
    if (to != from.data) std::memmove(to, from.data, from.bytes);
  }

  /// The other ranks, beginning with the next one, so that not all ranks begin with the same peer.
  std::vector<int> peers() const {
    std::vector<int> ranks;
    for (int step = 1; step < size_; ++step) ranks.push_back((rank_ + step) % size_);
    return ranks;
  }

  Pending start(Schedule schedule, std::vector<at::Tensor> kept) {
    const auto operation =
        std::make_shared<tcp::Operation>(++collectives_, std::move(schedule), std::move(kept), &links_);
    links_.start(operation);
    return operation;
  }

  Pending start_message(int tag, Exchange exchange, const at::Tensor& kept) {
    const auto operation =
        std::make_shared<tcp::Operation>(tcp::kMessageBit | static_cast<std::uint64_t>(static_cast<std::uint32_t>(tag)),
                                         Schedule::of({std::move(exchange)}), std::vector<at::Tensor>{kept}, &links_);
    links_.start(operation);
    return operation;
  }

  std::chrono::milliseconds timeout_;
  Progress* progress_;
  std::uint64_t collectives_ = 0;
  tcp::Links links_;
};

}  // namespace

std::unique_ptr<Backend> make_tcp_backend(const BackendContext& context) {
  return std::make_unique<TcpBackend>(context);
}

}  // namespace lockstep::detail
