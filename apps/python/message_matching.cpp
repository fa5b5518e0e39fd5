// Headers and data of messages: sends, receives that wait, and receives whose data arrives.
#include <apps/python/message_matching.h>

#include <apps/python/device_copies.h>
#include <apps/python/flat.h>
#include <apps/python/torch_errors.h>

#include <lockstep/base/error.h>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace lockstep::python {
namespace {

using std::chrono::milliseconds;

/// A wait also finds lost peers, which a test does not.
constexpr auto kBetweenChecks = milliseconds(300);
constexpr auto kOneCheck = milliseconds(60);

int header_tag(int tag) { return 2 * tag; }
int data_tag(int tag) { return 2 * tag + 1; }

bool accepts(const QueuedMessage& receive, int rank, int tag) {
  return receive.tag == tag && (!receive.peer || *receive.peer == rank);
}

std::exception_ptr torch_error(ErrorKind kind, const std::string& where, const std::string& text) {
  return as_torch_error(std::make_exception_ptr(Error(kind, where, text)));
}

std::string described(const QueuedMessage& message) {
  if (!message.peer) return "receive from any rank";
  return fmt::format("{} rank {}", message.sends ? "send to" : "receive from", *message.peer);
}

std::int64_t bytes_of(const at::Tensor& tensor) { return tensor.numel() * tensor.element_size(); }

at::Tensor header_of(const at::Tensor& tensor) {
  return at::tensor({bytes_of(tensor), static_cast<std::int64_t>(tensor.scalar_type())}, at::kLong);
}

std::string described(std::int64_t bytes, at::ScalarType dtype) {
  return fmt::format("{} bytes of dtype {}", bytes, at::toString(dtype));
}

}  // namespace

bool MessageMatching::Watched::over() {
  if (work.test()) {
    work.wait();
    return true;
  }
  const auto now = Clock::now();
  if (now - checked < kBetweenChecks) return false;
  checked = now;
  try {
    work.wait(kOneCheck);
    return true;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::timeout) return false;  // a short limit ends nothing
    throw;
  }
}

void MessageMatching::begin(QueuedMessage message) {
  Started one{std::move(message), {}, {}};
  try {
    const at::NoGradGuard no_grad;
    const auto& tensor = one.message.tensor;
    one.memory = flat(tensor.is_cpu() ? tensor : tensor.to(at::kCPU));
    if (one.message.sends) {
      send(one);
      sending_.push_back(std::move(one));
    } else {
      open_mailboxes(one.message);
      waiting_.push_back(std::move(one));
      deliver_arrived();
    }
  } catch (...) {
    finish(one, as_torch_error(std::current_exception()));
  }
}

void MessageMatching::send(Started& one) {
  const int peer = one.message.peer.value();
  one.header = header_of(one.message.tensor);
  one.transfers.push_back({send_async(one.header, group_, peer, header_tag(one.message.tag))});
  one.transfers.push_back({send_async(one.memory, group_, peer, data_tag(one.message.tag))});
}

void MessageMatching::open_mailboxes(const QueuedMessage& message) {
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (rank == group_.rank() || !accepts(message, rank, message.tag) || mailboxes_.contains({rank, message.tag}))
      continue;
    Mailbox box{at::zeros({2}, at::kLong), {}};
    box.transfer.work = receive_async(box.header, group_, rank, header_tag(message.tag));
    mailboxes_.emplace(Key(rank, message.tag), std::move(box));
  }
}

void MessageMatching::read_mailboxes() {
  if (waiting_.empty()) return;
  for (auto& [key, box] : mailboxes_) {
    if (box.arrived) continue;
    try {
      box.arrived = box.transfer.over();
    } catch (...) {
      const auto error = as_torch_error(std::current_exception());
      const auto [rank, tag] = key;
      std::erase_if(waiting_, [&, rank = rank, tag = tag](Started& one) {
        if (!accepts(one.message, rank, tag)) return false;
        finish(one, error);
        return true;
      });
    }
  }
  deliver_arrived();
}

void MessageMatching::deliver_arrived() {
  std::vector<std::pair<Key, at::Tensor>> arrived;
  for (const auto& [key, box] : mailboxes_) {
    if (box.arrived) arrived.emplace_back(key, box.header);
  }
  for (const auto& [key, header] : arrived) deliver(key, header);
}

// Begins to receive the data of a message, if a receive waits for it.
void MessageMatching::deliver(const Key& key, const at::Tensor& header) {
  const auto [rank, tag] = key;
  const auto taker = std::find_if(waiting_.begin(), waiting_.end(), [rank = rank, tag = tag](const Started& one) {
    return accepts(one.message, rank, tag);
  });
  if (taker == waiting_.end()) return;
  mailboxes_.erase(key);
  arriving_.splice(arriving_.end(), waiting_, taker);
  auto& one = arriving_.back();
  one.message.work->set_source(rank);
  const auto bytes = header[0].item<std::int64_t>();
  const auto dtype = static_cast<at::ScalarType>(header[1].item<std::int64_t>());
  const auto& tensor = one.message.tensor;
  try {
    if (bytes != bytes_of(tensor) || dtype != tensor.scalar_type()) {
      one.misfit =
          torch_error(ErrorKind::mismatch, "receive",
                      fmt::format("the message of rank {} has {}, and the tensor of the receive {}; both ranks "
                                  "must pass tensors of the same size and dtype",
                                  rank, described(bytes, dtype), described(bytes_of(tensor), tensor.scalar_type())));
      one.memory = at::empty({bytes}, at::kByte);
    }
    one.transfers.push_back({receive_async(one.memory, group_, rank, data_tag(tag))});
    for (const auto& other : waiting_) open_mailboxes(other.message);
  } catch (...) {
    if (!one.misfit) one.misfit = as_torch_error(std::current_exception());
    one.transfers.clear();
  }
}

void MessageMatching::finish(Started& one, std::exception_ptr error) {
  auto& message = one.message;
  try {
    if (!error) error = one.misfit;
    if (!error && !message.sends && one.memory.data_ptr() != message.tensor.data_ptr()) {
      const at::NoGradGuard no_grad;
      store_slices(one.memory, {message.tensor});
      await_device({{}, {message.tensor}});
    }
  } catch (...) {
    error = as_torch_error(std::current_exception());
  }
  one.memory.reset();
  message.tensor.reset();
  message.work->complete(error);
  ++ended_;
}

bool MessageMatching::advance(Started& one) {
  try {
    while (!one.transfers.empty() && one.transfers.front().over()) one.transfers.pop_front();
    if (!one.transfers.empty()) return false;
    finish(one, nullptr);
  } catch (...) {
    finish(one, as_torch_error(std::current_exception()));
  }
  return true;
}

void MessageMatching::fail_late(std::list<Started>& messages) {
  const auto now = Clock::now();
  std::erase_if(messages, [&](Started& one) {
    const auto& message = one.message;
    if (now - one.begun < message.limit) return false;
    const auto text = fmt::format("the {} did not finish within {:.1f} s", described(message),
                                  static_cast<double>(message.limit.count()) / 1000);
    group_.abort(text);
    finish(one, torch_error(ErrorKind::timeout, message.sends ? "send" : "receive", text));
    return true;
  });
}

std::size_t MessageMatching::advance() {
  ended_ = 0;
  std::erase_if(sending_, [this](Started& one) { return advance(one); });
  read_mailboxes();
  std::erase_if(arriving_, [this](Started& one) { return advance(one); });
  for (auto* messages : {&sending_, &waiting_, &arriving_}) fail_late(*messages);
  return ended_;
}

std::size_t MessageMatching::fail_all(const std::exception_ptr& error) {
  ended_ = 0;
  for (auto* messages : {&sending_, &waiting_, &arriving_}) {
    for (auto& one : *messages) finish(one, error);
    messages->clear();
  }
  return ended_;
}

}  // namespace lockstep::python
