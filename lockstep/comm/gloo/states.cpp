#include <lockstep/comm/gloo/states.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace lockstep::detail::gloo {
namespace {

using std::chrono::milliseconds;

// A wait of 0 means "without end" to c10d.
milliseconds positive(milliseconds timeout) { return std::max(timeout, milliseconds(1)); }

class CollectiveState : public WorkState {
 public:
  explicit CollectiveState(c10::intrusive_ptr<c10d::Work> work) : work_(std::move(work)) {}

  void wait(milliseconds timeout) override {
    try {
      work_->wait(positive(timeout));
    } catch (const std::exception& error) {
      if (!work_->isCompleted()) throw Error(ErrorKind::timeout, "gloo", "not complete");
      throw as_error(error);
    }
  }

  bool test() override { return work_->isCompleted(); }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
};

// c10d's tags of messages, two for each of ours.
int length_tag(int tag) { return 2 * tag; }
int content_tag(int tag) { return 2 * tag + 1; }

c10::intrusive_ptr<c10d::Work> send_part(ClosableGloo& group, at::Tensor part, int destination, int tag) {
  std::vector<at::Tensor> parts = {std::move(part)};
  return group.send(parts, destination, tag);
}

c10::intrusive_ptr<c10d::Work> receive_part(ClosableGloo& group, at::Tensor part, int source, int tag) {
  std::vector<at::Tensor> parts = {std::move(part)};
  return group.recv(parts, source, tag);
}

// A message cannot be looked at again after a wait that timed out: Gloo closes all connections then. So both states
// below wait for as long as the group's timeout allows, whatever they are asked.
void wait_for_part(c10d::Work& work, const ClosableGloo& group) {
  try {
    work.wait(positive(group.timeout()));
  } catch (const std::exception& error) {
    throw as_error(error);
  }
}

class SendState : public WorkState {
 public:
  SendState(ClosableGloo& group, at::Tensor bytes, int destination, int tag) : group_(group) {
    auto length = at::full({1}, bytes.numel(), at::TensorOptions().dtype(at::kLong));
    length_ = send_part(group, std::move(length), destination, length_tag(tag));
    content_ = send_part(group, std::move(bytes), destination, content_tag(tag));
  }

  void wait(milliseconds) override {
    wait_for_part(*length_, group_);
    wait_for_part(*content_, group_);
  }

  bool test() override { return false; }

 private:
  ClosableGloo& group_;
  c10::intrusive_ptr<c10d::Work> length_;
  c10::intrusive_ptr<c10d::Work> content_;
};

class ReceiveState : public WorkState {
 public:
  ReceiveState(ClosableGloo& group, at::Tensor bytes, int source, int tag)
      : group_(group),
        bytes_(std::move(bytes)),
        source_(source),
        tag_(tag),
        length_(at::empty({1}, at::TensorOptions().dtype(at::kLong))),
        length_work_(receive_part(group, length_, source, length_tag(tag))) {}

  void wait(milliseconds) override {
    wait_for_part(*length_work_, group_);
    const auto sent = *length_.data_ptr<std::int64_t>();
    if (sent != bytes_.numel()) {
      throw Error(ErrorKind::mismatch, "receive",
                  fmt::format("rank {} sent {} bytes with tag {}, but the tensor to receive into has {}", source_, sent,
                              tag_, bytes_.numel()));
    }
    wait_for_part(*receive_part(group_, bytes_, source_, content_tag(tag_)), group_);
  }

  bool test() override { return false; }

 private:
  ClosableGloo& group_;
  at::Tensor bytes_;
  int source_;
  int tag_;
  at::Tensor length_;
  c10::intrusive_ptr<c10d::Work> length_work_;
};

}  // namespace

Error as_error(const std::exception& error) {
  const std::string text = error.what();
  const bool late = text.find("imed out") != std::string::npos || text.find("imeout") != std::string::npos;
  return Error(late ? ErrorKind::timeout : ErrorKind::peer_lost, "gloo", text.substr(0, text.find('\n')));
}

Backend::Pending pending(c10::intrusive_ptr<c10d::Work> work) {
  return std::make_shared<CollectiveState>(std::move(work));
}

Backend::Pending send_message(ClosableGloo& group, at::Tensor bytes, int destination, int tag) {
  return std::make_shared<SendState>(group, std::move(bytes), destination, tag);
}

Backend::Pending receive_message(ClosableGloo& group, at::Tensor bytes, int source, int tag) {
  return std::make_shared<ReceiveState>(group, std::move(bytes), source, tag);
}

}  // namespace lockstep::detail::gloo
