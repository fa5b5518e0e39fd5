// Messages over Gloo as two c10d messages, length and content; one thread waits for each pair.
#include <lockstep/comm/gloo/messenger.h>

#include <lockstep/base/error.h>
#include <lockstep/comm/gloo/states.h>
#include <lockstep/comm/gloo/without_sigpipe.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <vector>

namespace lockstep::detail::gloo {
namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// c10d's tags, two for each tag of Lockstep.
int length_tag(int tag) { return 2 * tag; }
int content_tag(int tag) { return 2 * tag + 1; }

WorkPtr send_part(ClosableGloo& group, const at::Tensor& part, int destination, int tag) {
  std::vector<at::Tensor> parts = {part};
  try {
    return group.send(parts, destination, tag);
  } catch (const std::exception& error) {
    throw as_error(error);
  }
}

WorkPtr receive_part(ClosableGloo& group, const at::Tensor& part, int source, int tag) {
  std::vector<at::Tensor> parts = {part};
  try {
    return group.recv(parts, source, tag);
  } catch (const std::exception& error) {
    throw as_error(error);
  }
}

}  // namespace

void Messenger::Waits::finish(const WorkPtr& work, std::chrono::milliseconds timeout) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) work->abort();  // the wait below returns at once
    current_ = work;
  }
  bool complete = false;
  try {
    complete = work->wait(timeout);
  } catch (const std::exception& error) {
    throw as_error(error);
  }
  const std::lock_guard lock(mutex_);
  current_.reset();
  if (!complete) throw Error(ErrorKind::peer_lost, "gloo", "the group was closed");
}

void Messenger::Waits::stop() noexcept {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  if (current_) current_->abort();
}

Messenger::~Messenger() {
  for (auto& one : running_) one.thread.join();
}

bool Messenger::busy() {
  const std::lock_guard lock(mutex_);
  return !std::all_of(running_.begin(), running_.end(), [](const auto& one) { return is_ready(one.done); });
}

void Messenger::stop() noexcept {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  for (const auto& one : running_) one.waits->stop();
}

Messenger::Done Messenger::run(std::function<void(Waits&)> message) {
  const std::lock_guard lock(mutex_);
  for (auto one = running_.begin(); one != running_.end();) {
    if (is_ready(one->done)) {
      one->thread.join();
      one = running_.erase(one);
    } else {
      ++one;
    }
  }
  auto waits = std::make_shared<Waits>();
  if (stopped_) waits->stop();
  std::packaged_task<void()> task([waits, message = std::move(message)] { message(*waits); });
  auto done = task.get_future().share();
  running_.push_back({done, waits, std::thread(std::move(task))});
  return done;
}

Backend::Pending Messenger::send(const at::Tensor& bytes, int destination, int tag) {
  auto length = at::full({1}, bytes.numel(), at::TensorOptions().dtype(at::kLong));
  const WithoutSigpipe guard;  // the thread inherits it
  auto length_work = send_part(group_, length, destination, length_tag(tag));
  auto content_work = send_part(group_, bytes, destination, content_tag(tag));
  return pending(run([=, timeout = timeout_](Waits& waits) {
    waits.finish(length_work, timeout);
    waits.finish(content_work, timeout);
  }));
}

Backend::Pending Messenger::receive(const at::Tensor& bytes, int source, int tag) {
  auto length = at::empty({1}, at::TensorOptions().dtype(at::kLong));
  const WithoutSigpipe guard;  // the thread inherits it
  auto length_work = receive_part(group_, length, source, length_tag(tag));
  auto& last = last_received_[{source, tag}];
  const auto before = last;
  last = run([=, group = &group_, timeout = timeout_](Waits& waits) {
    if (before.valid()) before.get();
    waits.finish(length_work, timeout);
    const auto sent = *length.data_ptr<std::int64_t>();
    if (sent != bytes.numel()) {
      throw Error(ErrorKind::mismatch, "receive",
                  fmt::format("rank {} sent {} bytes with tag {}, but the tensor to receive into has {}", source, sent,
                              tag, bytes.numel()));
    }
    waits.finish(receive_part(*group, bytes, source, content_tag(tag)), timeout);
  });
  return pending(last);
}

}  // namespace lockstep::detail::gloo
