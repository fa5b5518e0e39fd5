// Named tensors: the state of models and optimizers as it is saved, compared and sent. The functions are collectives
// when global tensors are among the tensors. Not thread-safe beside other uses of the tensors.
#pragma once

#include <map>
#include <string>

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}

namespace lockstep::train {

/// Ordered by name, byte by byte. Tensors of any shape and dtype; copies share their memory.
using NamedTensors = std::map<std::string, at::Tensor, std::less<>>;

/// All parameters and buffers, sharing the module's memory.
NamedTensors module_state(const torch::nn::Module& module);

/// Error(data) naming the first tensor that is missing, unexpected, or of another shape or dtype than the module's.
/// Reads no values: they may be tensors of the meta device.
void require_module_state(const torch::nn::Module& module, const NamedTensors& state);

/// Copies a state into the module. Errors of require_module_state, which leave it unchanged.
void load_module_state(torch::nn::Module& module, const NamedTensors& state);

/// SHA-256 in hexadecimal over the tensors in the order of their names. Each adds the line "<name> <dtype>
/// [<d0>,<d1>,...]\n" (dtype as libtorch prints it, e.g. "Float") and then its elements, row major, in this machine's
/// byte order.
std::string sha256_of(const NamedTensors& tensors);

/// `params_sha256` of result.json: sha256_of(module_state(module)).
std::string params_sha256(const torch::nn::Module& module);

}  // namespace lockstep::train
