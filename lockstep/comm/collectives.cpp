// The front of all collectives. Order: check arguments, begin the call, compare it between ranks, start the backend.
#include <lockstep/comm/collectives.h>

#include <lockstep/base/error.h>
#include <lockstep/comm/arguments.h>
#include <lockstep/comm/differentiable.h>
#include <lockstep/comm/group_impl.h>
#include <lockstep/comm/work_states.h>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/view_as_real.h>
#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <utility>

namespace lockstep {
namespace {

using at::Tensor;
using detail::Backend;
using detail::Call;
using detail::check_message;
using detail::check_no_result;
using detail::check_output;
using detail::check_rank;
using detail::check_reduction;
using detail::check_rows;
using detail::check_tensor;
using detail::check_unrecorded;
using detail::check_written;
using detail::describe;
using detail::first_of;
using detail::is_recorded;
using detail::Problem;
using detail::rows_divided;
using detail::rows_times;

using detail::Payload;

/// One call as the front receives it.
struct GroupRequest {
  detail::Op op;
  Problem problem;                   ///< of this rank's arguments
  std::optional<Payload> payload{};  ///< none for calls without a tensor

  bool empty() const { return payload && payload->bytes == 0; }  ///< nothing to move
  c10::Device device() const { return payload ? payload->device : c10::Device(c10::kCPU); }
};

enum class Then {
  wait,  ///< wait for the result; the Work is empty
  go_on
};

Work nothing_to_do(detail::GroupImpl& impl, const Call& call) {
  impl.ended(call);
  return Work();
}

/// Checks the request with the other ranks, then lets the backend `start` it. `signature` makes the text of op and
/// arguments, which is the same on all ranks. It is called only where the text is used, because it takes longer than a
/// small collective.
template <typename Signature, typename Start>
Work run(const Group& group, const GroupRequest& request, const Signature& signature, const Start& start,
         Then then = Then::go_on) {
  const at::NoGradGuard no_grad;
  auto& impl = group.impl();
  const detail::GroupImpl::SoleCaller caller(impl, request.op.name);
  if (!current_trace() && group.checks_arguments()) impl.meet_on_traces();
  const auto misplaced = request.problem ? std::nullopt : impl.misplaced(request.device());
  const Problem& problem = misplaced ? misplaced : request.problem;
  auto payload = request.payload.value_or(Payload{});
  if (misplaced) payload.device = c10::kCPU;
  const Call call = impl.begin(request.op, payload);
  Backend& backend = impl.backend_on(payload.device);
  const bool compared_there = backend.compares_calls();
  if (compared_there && problem) backend.refuse(detail::refusal(signature(), *problem));
  if (!compared_there && group.checks_arguments()) {
    agree(impl, call, signature(), problem);
  } else {
    StatusPage::begin(call.record, call.begun);
  }
  if (problem) throw Error(ErrorKind::invalid_argument, call.op, *problem);
  if (request.empty() && !compared_there) return nothing_to_do(impl, call);
  const auto start_it = [&] { return start(backend, call); };
  if (then == Then::go_on) return detail::start_work(impl, call, start_it);
  detail::finish_work(impl, call, start_it);
  return Work();
}

// Contiguous memory with the values of `tensor`: the memory of a lazy conj() or negative tensor holds other values.
Tensor in_memory(const Tensor& tensor) { return tensor.contiguous().resolve_conj().resolve_neg(); }

// Sums and means of complex numbers are those of their real and imaginary parts, and engines receive these parts.
Tensor as_reduced(const Tensor& tensor) { return tensor.is_complex() ? at::view_as_real(tensor) : tensor; }

// Works on a contiguous copy of `tensor` where it is not contiguous itself, and copies the result back at the end.
template <typename Start>
Backend::Pending in_place(Tensor& tensor, Start start) {
  Tensor staged = in_memory(tensor);
  auto pending = start(staged);
  if (staged.is_same(tensor)) return pending;
  return detail::then(std::move(pending), [tensor, staged]() mutable { tensor.copy_(staged); });
}

// The tensors that an operation reads and writes must stay alive until it is complete.
template <typename... Tensors>
Backend::Pending keep(const Backend& backend, Backend::Pending pending, const Tensors&... tensors) {
  if (backend.holds_tensors()) return pending;
  return detail::then(std::move(pending), [kept = std::vector<Tensor>{tensors...}]() mutable { kept.clear(); });
}

// The slice of `tensor` for each rank; undefined where the arguments are refused anyway.
Tensor empty_slice(const Tensor& tensor, int size) {
  if (!tensor.defined() || check_rows(tensor, size)) return {};
  return at::empty(rows_divided(tensor, size), tensor.options());
}

Payload payload_of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {static_cast<std::uint64_t>(tensor.numel()) * tensor.itemsize(), tensor.device(),
          detail::number_of_dtype(tensor.scalar_type())};
}

// The same for a message, in which only two ranks take part.
template <typename Start>
Work run_message(const Group& group, const GroupRequest& request, Start start) {
  const at::NoGradGuard no_grad;
  auto& impl = group.impl();
  const detail::GroupImpl::SoleCaller caller(impl, request.op.name);
  const auto misplaced = request.problem ? std::nullopt : impl.misplaced(request.device());
  const Problem& problem = misplaced ? misplaced : request.problem;
  if (problem) throw Error(ErrorKind::invalid_argument, request.op.name, *problem);
  const Call call = impl.begin_message(request.op, request.payload.value_or(Payload{}));
  if (request.empty()) return nothing_to_do(impl, call);
  return detail::start_work(impl, call, [&] { return start(impl.backend_on(call.device), call); });
}

constexpr std::string_view kThoseThatDo = "all_reduce, all_gather, reduce_scatter and all_to_all do";

bool has_gradient(ReduceOp op) { return op == ReduceOp::sum || op == ReduceOp::mean; }

// The function to call instead when `op`, which is differentiable, is called asynchronously or with an operator without
// gradient.
struct Instead {
  std::string called;
  std::string words;
};

Instead instead_of(std::string_view op, ReduceOp reduction) {
  if (has_gradient(reduction)) return {fmt::format("{}_async", op), fmt::format("call {}, which does", op)};
  return {fmt::format("{} of {}", op, name(reduction)),
          fmt::format("take the {} of the result of all_gather, which does", name(reduction))};
}

// Neither tensor may belong to a graph: data written to the output would have no gradient.
Problem check_copied(const Tensor& output, const Tensor& tensor, std::string_view op, ReduceOp reduction) {
  if (!is_recorded(output) && !is_recorded(tensor)) return std::nullopt;
  const auto [called, words] = instead_of(op, reduction);
  return first_of(check_unrecorded(tensor, called, words), check_no_result(output, called, words));
}

Work all_reduce_in_place(Tensor& tensor, const Group& group, ReduceOp op, Then then) {
  GroupRequest request{"all_reduce", first_of(check_written(tensor, "the tensor"), check_reduction(tensor, op)),
                       payload_of(tensor)};
  if (!request.problem && is_recorded(tensor)) {
    const auto [called, words] = instead_of("all_reduce", op);
    request.problem = check_no_result(tensor, called, words);
  }
  const auto signature = [&] { return fmt::format("all_reduce {} of {}", name(op), describe(tensor)); };
  return run(
      group, request, signature,
      [&](Backend& backend, const Call& call) {
        return in_place(tensor, [&](const Tensor& staged) {
          auto reduced = as_reduced(staged);
          return keep(backend, backend.all_reduce(reduced, op, call), reduced);
        });
      },
      then);
}

Work reduce_in_place(Tensor& tensor, const Group& group, int root, ReduceOp op, Then then) {
  const GroupRequest request{
      "reduce",
      first_of(check_written(tensor, "the tensor"), check_reduction(tensor, op), check_rank(root, group.size(), "root"),
               check_no_result(tensor, "reduce", kThoseThatDo)),
      payload_of(tensor)};
  const auto signature = [&] { return fmt::format("reduce {} of {} to {}", name(op), describe(tensor), root); };
  return run(
      group, request, signature,
      [&](Backend& backend, const Call& call) {
        return in_place(tensor, [&](const Tensor& staged) {
          auto reduced = as_reduced(staged);
          return keep(backend, backend.reduce(reduced, root, op, call), reduced);
        });
      },
      then);
}

Work broadcast_in_place(Tensor& tensor, const Group& group, int root, Then then) {
  const GroupRequest request{"broadcast",
                             first_of(check_written(tensor, "the tensor"), check_rank(root, group.size(), "root"),
                                      check_no_result(tensor, "broadcast", kThoseThatDo)),
                             payload_of(tensor)};
  const auto signature = [&] { return fmt::format("broadcast of {} from {}", describe(tensor), root); };
  return run(
      group, request, signature,
      [&](Backend& backend, const Call& call) {
        return in_place(tensor,
                        [&](Tensor& staged) { return keep(backend, backend.broadcast(staged, root, call), staged); });
      },
      then);
}

}  // namespace

std::string_view name(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return "sum";
    case ReduceOp::mean: return "mean";
    case ReduceOp::min: return "min";
    case ReduceOp::max: return "max";
    case ReduceOp::product: return "product";
  }
  return "unknown";
}

Work all_reduce_async(Tensor& tensor, const Group& group, ReduceOp op) {
  return all_reduce_in_place(tensor, group, op, Then::go_on);
}

void all_reduce(Tensor& tensor, const Group& group, ReduceOp op) {
  // A parameter itself, for example one that is averaged over the ranks, is not a result of a graph.
  if (is_recorded(tensor) && !tensor.is_leaf() && has_gradient(op)) {
    return detail::recorded_all_reduce(tensor, group, op);
  }
  all_reduce_in_place(tensor, group, op, Then::wait);
}

Work reduce_async(Tensor& tensor, const Group& group, int root, ReduceOp op) {
  return reduce_in_place(tensor, group, root, op, Then::go_on);
}

void reduce(Tensor& tensor, const Group& group, int root, ReduceOp op) {
  reduce_in_place(tensor, group, root, op, Then::wait);
}

Work broadcast_async(Tensor& tensor, const Group& group, int root) {
  return broadcast_in_place(tensor, group, root, Then::go_on);
}

void broadcast(Tensor& tensor, const Group& group, int root) { broadcast_in_place(tensor, group, root, Then::wait); }

Work all_gather_async(Tensor& output, const Tensor& tensor, const Group& group) {
  GroupRequest request{"all_gather", check_tensor(tensor, "the tensor"), payload_of(tensor)};
  if (!request.problem) {
    request.problem = first_of(check_output(output, tensor, group.size() * tensor.numel()),
                               check_copied(output, tensor, "all_gather", ReduceOp::sum));
  }
  const auto signature = [&] { return fmt::format("all_gather of {}", describe(tensor)); };
  return run(group, request, signature, [&](Backend& backend, const Call& call) {
    const auto input = in_memory(tensor);
    return keep(backend, backend.all_gather(output, input, call), output, input);
  });
}

Tensor all_gather(const Tensor& tensor, const Group& group) {
  if (is_recorded(tensor)) return detail::recorded_all_gather(tensor, group);
  Tensor output;
  if (tensor.defined()) output = at::empty(rows_times(tensor, group.size()), tensor.options());
  all_gather_async(output, tensor, group).wait();
  return output;
}

Work reduce_scatter_async(Tensor& output, const Tensor& tensor, const Group& group, ReduceOp op) {
  GroupRequest request{"reduce_scatter", check_tensor(tensor, "the tensor"), payload_of(tensor)};
  if (!request.problem) {
    request.problem = first_of(check_reduction(tensor, op), check_rows(tensor, group.size()),
                               check_output(output, tensor, tensor.numel() / group.size()),
                               check_copied(output, tensor, "reduce_scatter", op));
  }
  const auto signature = [&] { return fmt::format("reduce_scatter {} of {}", name(op), describe(tensor)); };
  return run(group, request, signature, [&](Backend& backend, const Call& call) {
    const auto input = in_memory(tensor);
    auto reduced = as_reduced(output);
    return keep(backend, backend.reduce_scatter(reduced, as_reduced(input), op, call), reduced, input);
  });
}

Tensor reduce_scatter(const Tensor& tensor, const Group& group, ReduceOp op) {
  if (is_recorded(tensor) && has_gradient(op)) return detail::recorded_reduce_scatter(tensor, group, op);
  Tensor output = empty_slice(tensor, group.size());
  reduce_scatter_async(output, tensor, group, op).wait();
  return output;
}

Work all_to_all_async(Tensor& output, const Tensor& tensor, const Group& group) {
  GroupRequest request{"all_to_all", check_tensor(tensor, "the tensor"), payload_of(tensor)};
  if (!request.problem) {
    request.problem = first_of(check_rows(tensor, group.size()), check_output(output, tensor, tensor.numel()),
                               check_copied(output, tensor, "all_to_all", ReduceOp::sum));
  }
  const auto signature = [&] { return fmt::format("all_to_all of {}", describe(tensor)); };
  return run(group, request, signature, [&](Backend& backend, const Call& call) {
    const auto input = in_memory(tensor);
    return keep(backend, backend.all_to_all(output, input, call), output, input);
  });
}

Tensor all_to_all(const Tensor& tensor, const Group& group) {
  if (is_recorded(tensor)) return detail::recorded_all_to_all(tensor, group);
  Tensor output;
  if (tensor.defined()) output = at::empty(tensor.sizes(), tensor.options());
  all_to_all_async(output, tensor, group).wait();
  return output;
}

Tensor gather(const Tensor& tensor, const Group& group, int root) {
  const GroupRequest request{"gather",
                             first_of(check_tensor(tensor, "the tensor"), check_rank(root, group.size(), "root"),
                                      check_unrecorded(tensor, "gather", kThoseThatDo)),
                             payload_of(tensor)};
  Tensor output;
  if (!request.problem && group.rank() == root) {
    output = at::empty(rows_times(tensor, group.size()), tensor.options());
  }
  const auto signature = [&] { return fmt::format("gather of {} to {}", describe(tensor), root); };
  run(group, request, signature, [&](Backend& backend, const Call& call) {
    const auto input = in_memory(tensor);
    return keep(backend, backend.gather(output.defined() ? &output : nullptr, input, root, call), output, input);
  }).wait();
  return output;
}

Tensor scatter(const Tensor& tensor, const Group& group, int root, const Tensor& like) {
  const bool is_root = group.rank() == root;
  auto problem = check_rank(root, group.size(), "root");
  if (!problem) problem = is_root ? check_tensor(tensor, "the tensor") : check_tensor(like, "`like`");
  if (!problem && is_root) {
    problem = first_of(check_rows(tensor, group.size()), check_unrecorded(tensor, "scatter", kThoseThatDo));
  }
  const Tensor slice = is_root && !problem ? empty_slice(tensor, group.size()) : like;
  if (!problem && is_root && like.defined() && describe(like) != describe(slice)) {
    problem = fmt::format("`like` is {} but the slice of each rank is {}", describe(like), describe(slice));
  }

  const GroupRequest request{"scatter", problem, payload_of(slice)};
  const auto signature = [&] { return fmt::format("scatter of slices {} from {}", describe(slice), root); };
  Tensor output;
  if (!problem) output = at::empty(slice.sizes(), slice.options());
  run(group, request, signature, [&](Backend& backend, const Call& call) {
    const auto input = is_root ? in_memory(tensor) : Tensor();
    return keep(backend, backend.scatter(output, is_root ? &input : nullptr, root, call), output, input);
  }).wait();
  return output;
}

Work send_async(const Tensor& tensor, const Group& group, int destination, int tag) {
  const GroupRequest request{"send",
                             first_of(check_tensor(tensor, "the tensor"),
                                      check_message(destination, group.rank(), group.size(), tag, "destination"),
                                      check_no_result(tensor, "send", kThoseThatDo)),
                             payload_of(tensor)};
  return run_message(group, request, [&](Backend& backend, const Call& call) {
    const auto input = in_memory(tensor);
    return keep(backend, backend.send(input, destination, tag, call), input);
  });
}

void send(const Tensor& tensor, const Group& group, int destination, int tag) {
  send_async(tensor, group, destination, tag).wait();
}

Work receive_async(Tensor& tensor, const Group& group, int source, int tag) {
  const GroupRequest request{
      "receive",
      first_of(check_written(tensor, "the tensor"), check_message(source, group.rank(), group.size(), tag, "source"),
               check_no_result(tensor, "receive", kThoseThatDo)),
      payload_of(tensor)};
  return run_message(group, request, [&](Backend& backend, const Call& call) {
    return in_place(tensor,
                    [&](Tensor& staged) { return keep(backend, backend.receive(staged, source, tag, call), staged); });
  });
}

void receive(Tensor& tensor, const Group& group, int source, int tag) {
  receive_async(tensor, group, source, tag).wait();
}

void barrier(const Group& group) {
  const auto signature = [] { return std::string("barrier"); };
  run(group, {"barrier", std::nullopt}, signature, [](Backend& backend, const Call& call) {
    return backend.barrier(call);
  }).wait();
}

Tensor allocate(const Group& group, std::int64_t count, int scalar_type) {
  const auto dtype = static_cast<at::ScalarType>(scalar_type);
  GroupRequest request{"allocate", std::nullopt};
  if (scalar_type < 0 || scalar_type >= static_cast<int>(at::ScalarType::NumOptions)) {
    request.problem = fmt::format("{} is not the number of a dtype", scalar_type);
  } else if (count < 0) {
    request.problem = fmt::format("the number of elements, {}, is negative", count);
  }
  const auto signature = [&] { return fmt::format("allocate {} of dtype number {}", count, scalar_type); };
  Tensor memory;
  run(group, request, signature, [&](Backend& backend, const Call&) {
    memory = backend.allocate(count, dtype);
    return detail::done();
  }).wait();
  return memory;
}

}  // namespace lockstep
