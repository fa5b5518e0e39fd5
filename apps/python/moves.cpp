// Even slices are one collective of Lockstep; uneven ones are broadcasts or messages.
#include <apps/python/moves.h>

#include <apps/python/flat.h>

#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>

#include <ATen/ATen.h>

#include <string_view>
#include <vector>

namespace lockstep::python {
namespace {

std::size_t index_of(int rank) { return static_cast<std::size_t>(rank); }

void broadcast_each(CallTensors& tensors, const Group& group, Limit limit) {
  for (int rank = 0; rank < group.size(); ++rank) {
    FlatOutput output(tensors.outputs[index_of(rank)]);
    if (rank == group.rank()) output.memory().copy_(flat(tensors.inputs.front()));
    broadcast_async(output.memory(), group, rank).wait(limit);
    output.store();
  }
}

constexpr int kTag = 0;  // messages of programs are in a group of their own

/// Messages between all pairs of ranks. Receives begin first, so that no send has to wait.
void exchange_messages(std::vector<FlatOutput>& outputs, const std::vector<at::Tensor>& inputs, const Group& group,
                       Limit limit) {
  std::vector<lockstep::Work> works;
  for (int step = 1; step < group.size(); ++step) {
    const int source = (group.rank() - step + group.size()) % group.size();
    works.push_back(receive_async(outputs[index_of(source)].memory(), group, source, kTag));
  }
  for (int step = 1; step < group.size(); ++step) {
    const int destination = (group.rank() + step) % group.size();
    works.push_back(send_async(inputs[index_of(destination)], group, destination, kTag));
  }
  outputs[index_of(group.rank())].memory().copy_(inputs[index_of(group.rank())]);
  for (auto& work : works) work.wait(limit);
}

/// The numbers of elements that each rank sends to each other, and that it expects; the same on all ranks.
struct Exchange {
  std::int64_t ranks;
  std::vector<std::int64_t> rows;  ///< for each rank: to each rank, from each rank, and the number of its dtype

  std::int64_t at(int rank, std::int64_t column) const {
    return rows[static_cast<std::size_t>(rank * (2 * ranks + 1) + column)];
  }
  std::int64_t sent(int from, int to) const { return at(from, to); }
  std::int64_t expected(int by, int from) const { return at(by, ranks + from); }
  at::ScalarType dtype(int rank) const { return static_cast<at::ScalarType>(at(rank, 2 * ranks)); }
};

/// Fails on all ranks alike, before anything was sent, where a rank expects something else than another one sends.
Exchange agreed_exchange(const std::vector<std::int64_t>& sent, const std::vector<std::int64_t>& expected,
                         at::ScalarType dtype, std::string_view call, const Group& group, Limit limit) {
  auto own = sent;
  own.insert(own.end(), expected.begin(), expected.end());
  own.push_back(static_cast<std::int64_t>(dtype));
  auto all = at::empty({group.size(), static_cast<std::int64_t>(own.size())}, at::kLong);
  all_gather_async(all, at::tensor(own, at::kLong), group).wait(limit);
  const auto* first = all.data_ptr<std::int64_t>();
  const Exchange exchange{group.size(), {first, first + all.numel()}};
  for (int from = 0; from < group.size(); ++from) {
    if (exchange.dtype(from) != exchange.dtype(0)) {
      fail(ErrorKind::mismatch, call, "rank 0 passes tensors of dtype {}, and rank {} of dtype {}",
           at::toString(exchange.dtype(0)), from, at::toString(exchange.dtype(from)));
    }
    for (int to = 0; to < group.size(); ++to) {
      if (exchange.sent(from, to) == exchange.expected(to, from)) continue;
      fail(ErrorKind::mismatch, call,
           "rank {} sends {} elements to rank {}, which expects {} of it; what one rank sends to another must have the "
           "size that the other one expects of it",
           from, exchange.sent(from, to), to, exchange.expected(to, from));
    }
  }
  return exchange;
}

bool is_even(const Exchange& exchange) {
  for (int from = 0; from < exchange.ranks; ++from) {
    for (int to = 0; to < exchange.ranks; ++to) {
      if (exchange.sent(from, to) != exchange.sent(0, 0)) return false;
    }
  }
  return true;
}

std::vector<std::int64_t> counts_of(const std::vector<at::Tensor>& tensors) {
  std::vector<std::int64_t> counts;
  for (const auto& tensor : tensors) counts.push_back(tensor.numel());
  return counts;
}

void exchange_all(const std::vector<at::Tensor>& given_outputs, const std::vector<at::Tensor>& given_inputs,
                  const Group& group, Limit limit) {
  std::vector<FlatOutput> outputs(given_outputs.begin(), given_outputs.end());
  std::vector<at::Tensor> inputs;
  for (const auto& input : given_inputs) inputs.push_back(flat(input));
  exchange_messages(outputs, inputs, group, limit);
  for (auto& output : outputs) output.store();
}

/// The slices of `tensor` along dimension 0, one for each rank; `sizes` is empty where a program gives none.
std::vector<at::Tensor> slices(const at::Tensor& tensor, const std::vector<std::int64_t>& sizes, int ranks) {
  if (!sizes.empty()) return tensor.split_with_sizes(sizes);
  return tensor.split_with_sizes(std::vector<std::int64_t>(index_of(ranks), tensor.size(0) / ranks));
}

}  // namespace

void broadcast_from(int root, CallTensors& tensors, const Group& group, Limit limit) {
  const auto& tensor = tensors.outputs.front();
  FlatOutput output(tensor);
  // Ranks compare shapes; bytes of a dtype that Lockstep does not know have none.
  const bool same_dtype = output.memory().scalar_type() == tensor.scalar_type();
  auto shaped = same_dtype ? output.memory().view(tensor.sizes()) : output.memory();
  broadcast_async(shaped, group, root).wait(limit);
  output.store();
}

void gather_into(at::Tensor& output, const at::Tensor& input, const Group& group, Limit limit) {
  FlatOutput all(output);
  all_gather_async(all.memory(), flat(input), group).wait(limit);
  all.store();
}

void gather_on_all(CallTensors& tensors, const Group& group, Limit limit) {
  if (!same_sizes(tensors.outputs)) return broadcast_each(tensors, group, limit);
  const auto own = flat(tensors.inputs.front());
  auto all = at::empty({group.size() * own.numel()}, own.options());
  all_gather_async(all, own, group).wait(limit);
  store_slices(all, tensors.outputs);
}

void gather_on(int root, CallTensors& tensors, const Group& group, Limit) {
  const auto all = gather(flat(tensors.inputs.front()), group, root);
  if (group.rank() == root) store_slices(all, tensors.outputs);
}

void scatter_from(int root, CallTensors& tensors, const Group& group, Limit) {
  FlatOutput output(tensors.outputs.front());
  const auto all = group.rank() == root ? joined(tensors.inputs) : at::Tensor();
  output.memory().copy_(scatter(all, group, root, output.memory()));
  output.store();
}

void exchange(CallTensors& tensors, const Group& group, Limit limit) {
  agreed_exchange(counts_of(tensors.inputs), counts_of(tensors.outputs), tensors.inputs.front().scalar_type(),
                  "all_to_all", group, limit);
  exchange_all(tensors.outputs, tensors.inputs, group, limit);
}

void exchange_slices(CallTensors& tensors, const std::vector<std::int64_t>& output_sizes,
                     const std::vector<std::int64_t>& input_sizes, const Group& group, Limit limit) {
  auto& output = tensors.outputs.front();
  const auto& input = tensors.inputs.front();
  const auto outputs = slices(output, output_sizes, group.size());
  const auto inputs = slices(input, input_sizes, group.size());
  const auto exchange =
      agreed_exchange(counts_of(inputs), counts_of(outputs), input.scalar_type(), "all_to_all_single", group, limit);
  if (!is_even(exchange)) return exchange_all(outputs, inputs, group, limit);
  FlatOutput all(output);
  all_to_all_async(all.memory(), flat(input), group).wait(limit);
  all.store();
}

}  // namespace lockstep::python
