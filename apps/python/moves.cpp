// Even slices are one collective of Lockstep; uneven ones are broadcasts or messages.
#include <apps/python/moves.h>

#include <apps/python/flat.h>

#include <lockstep/comm/collectives.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <utility>

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

void exchange_all(const std::vector<at::Tensor>& given_outputs, const std::vector<at::Tensor>& given_inputs,
                  const Group& group, Limit limit) {
  std::vector<FlatOutput> outputs(given_outputs.begin(), given_outputs.end());
  std::vector<at::Tensor> inputs;
  for (const auto& input : given_inputs) inputs.push_back(flat(input));
  exchange_messages(outputs, inputs, group, limit);
  for (auto& output : outputs) output.store();
}

/// The sizes of the slices of `tensor` where a program gives none.
std::vector<std::int64_t> even_sizes(const at::Tensor& tensor, int size) {
  return std::vector<std::int64_t>(index_of(size), tensor.size(0) / size);
}

bool all_equal(const std::vector<std::int64_t>& sizes) {
  return std::adjacent_find(sizes.begin(), sizes.end(), std::not_equal_to<>()) == sizes.end();
}

/// A rank with even slices does not know those that the others exchange.
bool uneven_anywhere(bool here, const Group& group, Limit limit) {
  auto uneven = at::full({1}, here ? 1 : 0, at::kByte);
  all_reduce_async(uneven, group, lockstep::ReduceOp::max).wait(limit);
  return uneven.item<std::uint8_t>() != 0;
}

std::vector<at::Tensor> slices(const at::Tensor& tensor, const std::vector<std::int64_t>& sizes) {
  return tensor.split_with_sizes(sizes);
}

}  // namespace

void broadcast_from(int root, CallTensors& tensors, const Group& group, Limit limit) {
  FlatOutput output(tensors.outputs.front());
  broadcast_async(output.memory(), group, root).wait(limit);
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
  exchange_all(tensors.outputs, tensors.inputs, group, limit);
}

void exchange_slices(CallTensors& tensors, const std::vector<std::int64_t>& output_sizes,
                     const std::vector<std::int64_t>& input_sizes, const Group& group, Limit limit) {
  auto& output = tensors.outputs.front();
  const auto& input = tensors.inputs.front();
  if (!uneven_anywhere(!all_equal(output_sizes) || !all_equal(input_sizes), group, limit)) {
    FlatOutput all(output);
    all_to_all_async(all.memory(), flat(input), group).wait(limit);
    return all.store();
  }
  exchange_all(slices(output, output_sizes.empty() ? even_sizes(output, group.size()) : output_sizes),
               slices(input, input_sizes.empty() ? even_sizes(input, group.size()) : input_sizes), group, limit);
}

}  // namespace lockstep::python
