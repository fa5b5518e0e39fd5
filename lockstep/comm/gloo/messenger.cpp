#include <lockstep/comm/gloo/messenger.h>

#include <lockstep/base/error.h>
#include <lockstep/comm/gloo/states.h>
#include <lockstep/comm/gloo/without_sigpipe.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <vector>

namespace lockstep::detail::gloo {
namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// c10d's tags, two for each of ours.
int length_tag(int tag) { return 2 * tag; }
int content_tag(int tag) { return 2 * tag + 1; }

WorkPtr send_part(ClosableGloo& group, const at::Tensor& part, int destination, int tag) {
  std::vector<at::Tensor> parts = {part};
  return group.send(parts, destination, tag);
}

WorkPtr receive_part(ClosableGloo& group, const at::Tensor& part, int source, int tag) {
  std::vector<at::Tensor> parts = {part};
  return group.recv(parts, source, tag);
}

void finish(c10d::Work& work, std::chrono::milliseconds timeout) {
  try {
    work.wait(timeout);
  } catch (const std::exception& error) {
    throw as_error(error);
  }
}

}  // namespace

// One that Gloo does not wake is left to itself, with what it uses: nobody waits for its message any more.
Messenger::~Messenger() {
  for (auto& one : running_) is_ready(one.done) ? one.thread.join() : one.thread.detach();
}

bool Messenger::busy() {
  for (const auto& one : running_) {
    if (!is_ready(one.done)) return true;
  }
  return false;
}

Messenger::Done Messenger::run(std::packaged_task<void()> task) {
  for (auto one = running_.begin(); one != running_.end();) {
    if (is_ready(one->done)) {
      one->thread.join();
      one = running_.erase(one);
    } else {
      ++one;
    }
  }
  auto done = task.get_future().share();
  running_.push_back({done, std::thread(std::move(task))});
  return done;
}

Backend::Pending Messenger::send(const at::Tensor& bytes, int destination, int tag) {
  auto length = at::full({1}, bytes.numel(), at::TensorOptions().dtype(at::kLong));
  const WithoutSigpipe guard;  // the thread inherits it
  auto length_work = send_part(group_, length, destination, length_tag(tag));
  auto content_work = send_part(group_, bytes, destination, content_tag(tag));
  const auto keep = c10::intrusive_ptr<ClosableGloo>::reclaim_copy(&group_);
  return pending(run(std::packaged_task<void()>([=, timeout = timeout_] {
    const auto kept = keep;
    finish(*length_work, timeout);
    finish(*content_work, timeout);
  })));
}

Backend::Pending Messenger::receive(const at::Tensor& bytes, int source, int tag) {
  auto length = at::empty({1}, at::TensorOptions().dtype(at::kLong));
  const WithoutSigpipe guard;  // the thread inherits it
  auto length_work = receive_part(group_, length, source, length_tag(tag));
  auto& last = last_received_[{source, tag}];
  const auto before = last;
  const auto group = c10::intrusive_ptr<ClosableGloo>::reclaim_copy(&group_);
  last = run(std::packaged_task<void()>([=, timeout = timeout_] {
    if (before.valid()) before.get();
    finish(*length_work, timeout);
    const auto sent = *length.data_ptr<std::int64_t>();
    if (sent != bytes.numel()) {
      throw Error(ErrorKind::mismatch, "receive",
                  fmt::format("rank {} sent {} bytes with tag {}, but the tensor to receive into has {}", source, sent,
                              tag, bytes.numel()));
    }
    finish(*receive_part(*group, bytes, source, content_tag(tag)), timeout);
  }));
  return pending(last);
}

}  // namespace lockstep::detail::gloo
