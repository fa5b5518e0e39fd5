// The life of a process group: how calls become requests, and its end. Its collectives are in collectives.cpp.
#include <apps/python/process_group.h>

#include <apps/python/arguments.h>
#include <apps/python/device_copies.h>
#include <apps/python/python_lock.h>

#include <lockstep/comm/collectives.h>

#include <algorithm>
#include <utility>

namespace lockstep::python {

using std::chrono::milliseconds;

LockstepBackend::LockstepBackend(const Member& member)
    : Backend(member.rank, member.size),
      first_timeout_(member.timeout),
      timeout_(member.timeout),
      threaded_(std::make_unique<Threaded>(member)) {}

LockstepBackend::~LockstepBackend() {
  stop("the group was released while operations were pending", milliseconds(0));
  if (process_ != ::getpid()) static_cast<void>(threaded_.release());
}

c10::intrusive_ptr<c10d::Backend::Options> LockstepBackend::getBackendOptions() {
  return c10::make_intrusive<Options>("lockstep", timeout_.load());
}

Limit LockstepBackend::limit_of(milliseconds timeout) const {
  if (timeout == c10d::kUnsetTimeout) timeout = timeout_;
  return timeout == first_timeout_ ? std::nullopt : Limit(timeout);
}

c10::intrusive_ptr<TorchWork> LockstepBackend::new_work(const CallFacts& facts) {
  auto work = c10::make_intrusive<TorchWork>(rank_, ++number_, facts, threaded_->callbacks);
  const std::lock_guard lock(coalescing_);
  if (coalesced_) coalesced_->push_back(work);
  return work;
}

LockstepBackend::WorkPtr LockstepBackend::run(Call call,
                                              std::function<void(const Group&, CallTensors&, Limit)> execute) {
  const WithoutPythonLock unlocked;
  await_device(call.tensors);
  const CallFacts facts{call.type, call.title, call.tensors.inputs, call.tensors.outputs};
  auto work = new_work(facts);
  threaded_->operations.push({work, std::move(call.tensors), std::move(execute), limit_of(call.timeout)}, !call.async);
  return work;
}

LockstepBackend::WorkPtr LockstepBackend::post(c10d::OpType type, const char* title, const at::Tensor& tensor,
                                               std::optional<int> peer, int tag) {
  const WithoutPythonLock unlocked;
  const bool sends = type == c10d::OpType::SEND;
  const auto* op = sends ? "send" : "recv";
  if (peer) require_rank(*peer, size_, op);
  TORCH_CHECK_VALUE(peer != rank_, "lockstep: ", op, ": rank ", rank_,
                    " is this rank itself; a rank sends no messages to itself");
  TORCH_CHECK_VALUE(tag >= 0 && tag <= kLargestTag, "lockstep: ", op, ": tag ", tag, " is not in 0..", kLargestTag);
  require_alike({tensor}, {}, op);
  await_device({{}, {tensor}});
  CallFacts facts{type, title};
  (sends ? facts.inputs : facts.outputs) = {tensor};
  auto work = new_work(facts);
  threaded_->messages.push({work, tensor, sends, peer, tag, timeout_});
  return work;
}

void LockstepBackend::startCoalescing() {
  const std::lock_guard lock(coalescing_);
  TORCH_CHECK(!coalesced_, "lockstep: coalescing has begun already in this group");
  coalesced_.emplace();
}

LockstepBackend::WorkPtr LockstepBackend::endCoalescing() {
  const std::lock_guard lock(coalescing_);
  TORCH_CHECK(coalesced_, "lockstep: the end of coalescing in a group where it has not begun");
  auto works = std::move(*coalesced_);
  coalesced_.reset();
  return c10::make_intrusive<SeveralWorks>(rank_, std::move(works));
}

at::Tensor LockstepBackend::allocateTensor(long elements, at::TensorOptions options) {
  TORCH_CHECK_VALUE(options.device().is_cpu(), "lockstep: the group allocates memory of the CPU, not of ",
                    options.device());
  const auto memory = std::make_shared<at::Tensor>();
  const auto dtype = static_cast<int>(c10::typeMetaToScalarType(options.dtype()));
  run({c10d::OpType::UNKNOWN, nullptr, {}, c10d::kUnsetTimeout, false}, [=](const Group& group, CallTensors&, Limit) {
    *memory = lockstep::allocate(group, elements, dtype);
  })->wait();
  return *memory;
}

void LockstepBackend::stop(const std::string& reason, milliseconds patience) {
  const WithoutPythonLock unlocked;
  if (process_ != ::getpid() || closed_.exchange(true)) return;  // a forked child has none of the threads
  threaded_->operations.stop(reason, patience);
  threaded_->messages.stop(reason, patience);
  threaded_->callbacks->drain();
}

void LockstepBackend::abort() { stop("a rank aborted the group", milliseconds(0)); }

void LockstepBackend::shutdown() {
  constexpr milliseconds kPatience = std::chrono::seconds(10);
  stop("a rank destroyed the group while operations were pending", std::min(timeout_.load(), kPatience));
}

}  // namespace lockstep::python
