// The lifetime of a group: creation of its backends, numbers of calls, comparison of traces, and the end of all groups.
#include <lockstep/comm/group_impl.h>

#include <lockstep/comm/arguments.h>
#include <lockstep/comm/backends.h>
#include <lockstep/comm/device/devices.h>
#include <lockstep/comm/meet/lost_peers.h>
#include <lockstep/comm/work_states.h>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace lockstep::detail {
namespace {

double in_seconds(std::chrono::milliseconds duration) { return static_cast<double>(duration.count()) / 1000; }

// A mismatch of calls is an error on all ranks alike, and no operation is pending. But when the length of a message
// differs, the other side still waits.
bool ends_group(ErrorKind kind, std::string_view op) {
  if (kind == ErrorKind::mismatch) return op == "send" || op == "receive";
  return kind == ErrorKind::peer_lost || kind == ErrorKind::timeout;
}

// Another rank has not followed the last failure of this rank's trace yet; it will do so in its next collective.
class OthersBehind : public Error {
 public:
  using Error::Error;
};

std::vector<std::string> names_of(const std::vector<int>& world_ranks, const JobContext& job) {
  std::vector<std::string> names;
  for (const int rank : world_ranks) names.push_back(describe(job.rank_info(rank)));
  return names;
}

// Ranks that share a device usually do so by mistake, so the user has to request it.
void require_own_devices(std::string_view backend, const BackendContext& context) {
  const auto own = encode(cuda_identity(context.device.index()));
  std::vector<DeviceIdentity> devices;
  for (const auto& text : context.beside->exchange(own, {"connect"})) devices.push_back(decode_identity(text));
  if (const auto shared = shared_devices(devices, backend, context.describe_rank)) {
    fail(ErrorKind::unsupported, "connect", "{}", *shared);
  }
}

// An exception of the engine that is not an Error means that a connection broke.
Error as_error(std::exception_ptr problem) {
  try {
    std::rethrow_exception(std::move(problem));
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return Error(ErrorKind::peer_lost, "group", error.what());
  }
}

}  // namespace

GroupMembers group_members(std::string name, std::vector<int> world_ranks, int self,
                           const std::vector<RankInfo>& ranks) {
  GroupMembers members;
  members.name = std::move(name);
  members.world_ranks = std::move(world_ranks);
  members.local_size = 0;
  const auto& host = ranks.at(static_cast<std::size_t>(self)).host_identity;
  std::vector<std::string> identities;  // in the order of their first ranks
  for (std::size_t i = 0; i < members.world_ranks.size(); ++i) {
    const auto& theirs = ranks.at(static_cast<std::size_t>(members.world_ranks[i])).host_identity;
    if (members.world_ranks[i] == self) {
      members.rank = static_cast<int>(i);
      members.local_rank = members.local_size;
    }
    if (theirs == host) ++members.local_size;
    const auto known = std::find(identities.begin(), identities.end(), theirs) - identities.begin();
    if (static_cast<std::size_t>(known) == identities.size()) identities.push_back(theirs);
    members.hosts.push_back(static_cast<int>(known));
  }
  return members;
}

GroupImpl::GroupImpl(std::shared_ptr<JobContext> job, GroupMembers members, std::string_view requested,
                     GroupImpl* parent)
    : job_(std::move(job)),
      members_(std::move(members)),
      requested_(requested),
      page_number_(job_->status_page().name_group(members_.name)) {
  make_backends(parent);
}

std::shared_ptr<GroupImpl> GroupImpl::make(std::shared_ptr<JobContext> job, GroupMembers members,
                                           std::string_view requested, GroupImpl* parent) {
  auto group = std::make_shared<GroupImpl>(job, std::move(members), requested, parent);
  job->enlist(group);
  job->progress().add(group->backend_);
  return group;
}

// A rank that fails here publishes its failure, because the other ranks wait for it until their start_timeout.
template <typename Make>
void GroupImpl::or_tell(const Make& make) {
  std::string_view backend = requested_;
  try {
    make(backend);
  } catch (...) {
    const Error seen = as_error(std::current_exception());
    auto why = seen.message();
    if (ends_group(seen.kind(), "connect")) {
      const auto cause = job_->find_cause(members_.world_ranks, std::chrono::milliseconds(200));
      why = cause ? *cause : why + job_->addresses_by_variables(why, members_.world_ranks);
    }
    const Error error(seen.kind(), "connect",
                      fmt::format("rank {} of {} could not join group \"{}\" with backend {}: {}", members_.rank,
                                  members_.size(), members_.name, backend, why));
    job_->publish({world_rank(), false, error.what()});
    throw error;
  }
}

void GroupImpl::make_backends(GroupImpl* parent) {
  const auto& options = job_->options();
  or_tell([&](std::string_view& name) {
    const bool on_cuda = wants_cuda(options.device, is_for_cuda(requested_));
    if (on_cuda) {
      device_ = {c10::kCUDA,
                 static_cast<c10::DeviceIndex>(choose_cuda_device(options.device, job_->world().local_rank,
                                                                  cuda_devices(), may_share_devices(requested_)))};
    }
    device_name_ = device_.str();
    name = choose_backend(requested_, members_.hosts);
    const SocketsMadeSince sockets;
    backend_ = backend_called(name).make(backend_context());
    if (on_cuda) make_backend_for_cuda(name, parent);
    sockets.notice_lost_hosts(options.host_timeout);
  });
}

void GroupImpl::make_backend_for_cuda(std::string_view& name, GroupImpl* parent) {
  auto context = backend_context();
  name = choose_cuda_backend(requested_, members_.hosts, job_->options().encrypt);
  const auto& kind = backend_called(name);
  if (kind.carries == BackendKind::Carries::both) {  // backend_ carries CUDA tensors too
    if (parent) parent->left_out_of_subgroup();
    return;
  }
  if (!may_share_devices(requested_)) require_own_devices(name, context);
  context.parent = parent ? parent->on_device_.get() : nullptr;
  on_device_ = kind.make(context);
}

GroupImpl::~GroupImpl() = default;

GroupImpl::SoleCaller::SoleCaller(GroupImpl& group, std::string_view op) : group_(group) {
  if (!group_.in_call_.exchange(true, std::memory_order_acquire)) return;
  throw Error(ErrorKind::invalid_argument, op,
              fmt::format("another thread is in a call on group \"{}\"; one thread at a time uses a group: give each "
                          "thread a group of its own (Group::subgroup)",
                          group.members().name));
}

BackendContext GroupImpl::backend_context() {
  BackendContext context;
  context.store = c10::make_intrusive<c10d::PrefixStore>("group/" + members_.name, job_->store());
  context.rank = members_.rank;
  context.size = members_.size();
  context.world_ranks = members_.world_ranks;
  context.name = members_.name;
  context.start_timeout = job_->options().start_timeout;
  context.timeout = job_->options().timeout;
  context.one_host = members_.local_size == members_.size();
  context.hosts = members_.hosts;
  context.tls = job_->world().tls;
  // Ranks whose rendezvous used MPI were started by MPI, which has better information about the network.
  context.network = !context.tls && job_->world().rendezvous == Rendezvous::mpi ? "mpi" : "tcp";
  context.bind_address = job_->bind_address();
  context.progress = &job_->progress();
  context.describe_rank = [job = job_, ranks = members_.world_ranks](int rank) {
    return lockstep::detail::describe(job->rank_info(ranks.at(static_cast<std::size_t>(rank))));
  };
  // The job is captured by value: a backend's thread may still wait while the group is destroyed.
  const auto throw_for = [job = job_, ranks = members_.world_ranks](auto find) {
    return [job, ranks, find](const std::vector<int>& waited_for) {
      std::vector<int> in_world;
      for (const int rank : waited_for) in_world.push_back(ranks.at(static_cast<std::size_t>(rank)));
      if (const auto cause = find(*job, in_world)) throw Error(ErrorKind::peer_lost, "group", *cause);
    };
  };
  context.throw_if_lost = throw_for([](JobContext& job, const auto& of) { return job.find_loss(of); });
  // A rendezvous needs the store.
  context.while_connecting = throw_for([](JobContext& job, const auto& of) { return job.find_cause(of, {}); });
  context.throw_if_failed = [job = job_] {
    if (const auto fault = job->find_failure()) throw Error(ErrorKind::peer_lost, "group", *fault);
  };
  context.device = device_;
  context.beside = backend_.get();
  // Its thread ends before this object does, but may run here while the last handle is released.
  context.end_group = [this](const Call& call, std::exception_ptr problem, std::chrono::milliseconds waited) {
    if (const auto alive = weak_from_this().lock()) alive->end(call, std::move(problem), waited);
  };
  return context;
}

std::optional<std::string> GroupImpl::misplaced_elsewhere(c10::Device device) const {
  const bool both = backend_called(backend_->name()).carries == BackendKind::Carries::both;
  if (both && device.is_cuda() && !device_.is_cuda()) return std::nullopt;  // a group of one rank copies at most
  const auto where =
      fmt::format("the tensor is on {}, but group \"{}\" carries tensors on ", device.str(), members_.name);
  if (!device.is_cuda()) return fmt::format("{}the CPU{}; copy it first", where, device_.is_cuda() ? " and CUDA" : "");
  if (device_.is_cuda()) {
    return fmt::format("{}{} of the devices; copy it there first (GroupOptions::device)", where, device_name_);
  }
  return fmt::format(
      "{}the CPU alone, with backend {}; copy it first, or let the group carry those of a device "
      "(GroupOptions::device, system.device)",
      where, backend_->name());
}

void GroupImpl::left_out_of_subgroup() {
  if (on_device_) on_device_->left_out_of_subgroup();
}

Call GroupImpl::begin(const Op& op, const Payload& payload) {
  throw_if_failed({op.name, sequence_ + 1});
  OperatorTrace* trace = current_trace();
  if (trace) meet_on(*trace);
  return recorded({.op = op.name,
                   .sequence = ++sequence_,
                   .kind = op.number,
                   .begun = std::chrono::steady_clock::now(),
                   .trace = trace ? trace->hash() : 0,
                   .step = trace ? trace->number() : 0,
                   .bytes = payload.bytes,
                   .device = payload.device,
                   .element = payload.element});
}

Call GroupImpl::begin_message(const Op& op, const Payload& payload) {
  throw_if_failed({op.name, messages_ + 1});
  const Call call = recorded({.op = op.name,
                              .sequence = ++messages_,
                              .kind = op.number,
                              .begun = std::chrono::steady_clock::now(),
                              .bytes = payload.bytes,
                              .device = payload.device,
                              .element = payload.element});
  StatusPage::begin(call.record, call.begun);
  return call;
}

Call GroupImpl::recorded(Call call) {
  call.record = job_->status_page().ask(
      page_number_,
      {.op = call.kind, .element = call.element, .number = call.sequence, .bytes = call.bytes, .place = place_now()},
      call.begun);
  return call;
}

// The place that the program gives, else the last step on its trace, whose texts stay at their addresses.
std::uint32_t GroupImpl::place_now() noexcept {
  const auto place = current_place();
  const OperatorTrace* const trace = place == 0 ? current_trace() : nullptr;
  const std::string* const text = trace != nullptr ? trace->text() : nullptr;
  if (text == nullptr) return place;
  auto& [known, number] = places_[(reinterpret_cast<std::uintptr_t>(text) / sizeof(std::string)) % places_.size()];
  if (known != text) {
    number = job_->status_page().name_place(*text);
    known = text;
  }
  return number;
}

void GroupImpl::wait_for(WorkState& work, const Call& call, std::chrono::milliseconds timeout) {
  const auto start = std::chrono::steady_clock::now();
  try {
    job_->progress().wait(work, backend_on(call.device), timeout);
  } catch (...) {
    job_->note_waited(std::chrono::steady_clock::now() - start);  // it may be called again
    throw;
  }
  const auto end = std::chrono::steady_clock::now();
  job_->note_waited(end - start);
  StatusPage::complete(call.record, end);
}

void GroupImpl::throw_if_failed(const Call& call) {
  const auto before = failure();
  if (!before) return;
  throw Error(before->kind(), call.op,
              fmt::format("{} was not started, because the group failed before: {}", describe(call), before->what()));
}

std::string GroupImpl::describe(const Call& call) const {
  return fmt::format("{} {} of group \"{}\" on rank {} of {}{}", call.op, call.sequence, members_.name, members_.rank,
                     members_.size(), here(call));
}

std::string GroupImpl::here(const Call& call) const {
  const OperatorTrace* trace = call.trace != 0 ? current_trace() : nullptr;
  return trace ? " in " + trace->here() : "";
}

std::vector<std::shared_ptr<OperatorTrace>> GroupImpl::traces() const {
  std::vector<std::shared_ptr<OperatorTrace>> alive;
  for (const auto& each : traces_) {
    if (auto trace = each.lock()) alive.push_back(std::move(trace));
  }
  return alive;
}

std::string GroupImpl::compare_traces(const Call& call) {
  OperatorTrace* const current = call.trace != 0 ? current_trace() : nullptr;
  if (call.trace != 0 && (!current || call.step != 0)) return current ? compare_on(*current, call) : "";
  // The call is on no trace, or it is an additional rendezvous on a trace: another rank may call it on any trace.
  std::optional<OthersBehind> behind;
  std::string difference;
  const auto compare = [&](OperatorTrace& trace) {
    try {
      const auto text = compare_on(trace, call);
      if (&trace == current) difference = text;
    } catch (const OthersBehind& error) {
      if (&trace == current) behind = error;
    }
  };
  if (current) compare(*current);
  for (const auto& trace : traces()) {
    if (trace.get() != current) compare(*trace);
  }
  if (behind) throw OthersBehind(*behind);
  return difference;
}

std::string GroupImpl::compare_on(OperatorTrace& trace, const Call& call) {
  const auto notes = job_->share_notes(fmt::format("{}/{}/{}", trace.name(), members_.name, call.sequence),
                                       trace.notes(), members_.world_ranks);
  const auto failures = failures_in(notes, trace.failures());
  if (failures.next) {
    const auto here = trace.here();
    trace.follow(*failures.next);
    throw Error(failures.next->kind, call.op,
                fmt::format("{}. This rank was in {}. All ranks have this error now, and can continue together from "
                            "the same place of the program; the tensors that they wrote in between may differ",
                            failures.next->text, here));
  }
  const bool meets = call.step == 0;  // only the calls of meet_anew() are not steps
  if (failures.others_behind || (meets && failures.some_silent)) {
    throw OthersBehind(ErrorKind::mismatch, call.op, "other ranks have not received the error of this one");
  }
  const auto difference = first_difference(notes);
  return difference ? ". " + *difference : "";
}

void GroupImpl::meet_on_all() {
  for (const auto& trace : traces()) {
    const OperatorTraceScope on_trace(trace.get());
    meet_on(*trace);
  }
}

void GroupImpl::meet_anew(OperatorTrace& trace) {
  constexpr Op kMeet("barrier");
  auto& met = met_[trace.name()];
  while (met != trace.failures()) {
    const auto number = trace.failures();
    throw_if_failed({kMeet.name, sequence_ + 1});
    const Call call = recorded({.op = kMeet.name,
                                .sequence = ++sequence_,
                                .kind = kMeet.number,
                                .begun = std::chrono::steady_clock::now(),
                                .trace = number * 0x9e3779b97f4a7c15U | 1,
                                .step = 0});
    try {
      if (backend_->compares_calls()) {
        StatusPage::begin(call.record, call.begun);
        finish_work(*this, call, [&] { return backend_->barrier(call); });
      } else {
        agree(*this, call, fmt::format("continue after {} errors of one rank", number), std::nullopt);
        ended(call);
      }
      met = number;
    } catch (const OthersBehind&) {
      // The other ranks have the error now, or will have it with their pending operations.
    }
  }
}

std::string GroupImpl::compare_traces(const OperatorTrace& trace, const std::string& key) {
  const auto difference = first_difference(job_->share_notes(key, trace.notes(), members_.world_ranks));
  return difference ? ". " + *difference : "";
}

std::string GroupImpl::explain(const Call& call, const Error& seen, std::chrono::milliseconds waited) {
  if (seen.kind() == ErrorKind::mismatch) return seen.message();
  const OperatorTrace* trace = call.trace != 0 ? current_trace() : nullptr;
  if (seen.kind() == ErrorKind::timeout) {
    const auto key = fmt::format("{}/{}/{}", members_.name, call.op, call.sequence);
    const auto absent = job_->find_absent(key, members_.world_ranks);
    // The reasons of ranks that gave up meanwhile are more exact than a list of late ranks.
    const auto traces = trace ? compare_traces(*trace, trace->name() + "/late") : "";
    if (const auto cause = job_->find_cause(members_.world_ranks, std::chrono::milliseconds(0))) return *cause + traces;
    if (absent.empty())
      return fmt::format("all ranks wait in it; {} reports: {}", backend_on(call.device).name(), seen.message());
    return fmt::format(
        "{} did not take part in it in time; if a step may take longer, raise the limit "
        "(the timeout of the group, parallel.timeout_s or LOCKSTEP_TIMEOUT_S){}",
        fmt::join(names_of(absent, *job_), ", "), traces);
  }
  if (const auto cause = job_->find_cause(members_.world_ranks, std::chrono::seconds(1))) return *cause;
  const auto suspects = names_of(job_->ranks_at_address_in(seen.message(), members_.world_ranks), *job_);
  const auto text = fmt::format("after {:.1f} s of waiting a connection broke: {}", in_seconds(waited), seen.message());
  return suspects.empty() ? text : fmt::format("{}; that is the address of {}", text, fmt::join(suspects, " or "));
}

Error GroupImpl::describe_failure(const Call& call, const Error& seen, std::chrono::milliseconds waited) {
  const auto why = explain(call, seen, waited);
  const auto* how = seen.kind() == ErrorKind::timeout ? "did not finish within" : "failed after";
  return Error(seen.kind(), call.op, fmt::format("{} {} {:.1f} s: {}", describe(call), how, in_seconds(waited), why));
}

void GroupImpl::rethrow(const Call& call, std::exception_ptr problem, std::chrono::milliseconds waited) {
  const Error seen = as_error(std::move(problem));
  if (!ends_group(seen.kind(), call.op)) {
    const auto traces = seen.kind() == ErrorKind::mismatch ? compare_traces(call) : "";
    throw Error(seen.kind(), call.op, fmt::format("{}: {}{}", describe(call), seen.message(), traces));
  }
  const std::lock_guard one_at_a_time(failing_);
  if (const auto before = failure()) throw *before;
  const Error error = describe_failure(call, seen, waited);
  job_->publish({world_rank(), false, error.what()});
  job_->end_groups(error);
  throw error;
}

void GroupImpl::end(const Call& call, std::exception_ptr problem, std::chrono::milliseconds waited) noexcept {
  try {
    rethrow(call, std::move(problem), waited);
  } catch (const std::exception&) {
    // The next call of the group throws the error.
  }
}

void GroupImpl::abort(std::string_view reason) noexcept {
  if (failure()) return;
  job_->publish({world_rank(), true, std::string(reason)});
  job_->end_groups(Error(ErrorKind::peer_lost, "abort", fmt::format("this rank aborted: {}", reason)));
}

void GroupImpl::end_because(const Error& error) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = error;
  }
  backend_->abort();
  if (on_device_) on_device_->abort();
}

std::optional<Error> GroupImpl::failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace lockstep::detail
