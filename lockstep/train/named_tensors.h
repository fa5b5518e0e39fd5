// Tensors with names: the state of models and optimizers as it is saved, compared and sent.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}

namespace lockstep::train {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// All parameters and buffers in ascending order of their names (compared byte by byte), sharing the module's memory.
NamedTensors module_state(const torch::nn::Module& module);

/// Copies such a state into the module. Error(data) naming the first tensor that is missing, left over, or of another
/// shape or dtype.
void load_module_state(torch::nn::Module& module, const NamedTensors& state);

/// SHA-256 in hexadecimal over the tensors in the given order. Each adds the line "<name> <dtype> [<d0>,<d1>,...]\n"
/// (dtype as libtorch prints it, e.g. "Float") and then its elements, row major, in this machine's byte order.
std::string sha256_of(const NamedTensors& tensors);

/// `params_sha256` of result.json: sha256_of(module_state(module)).
std::string params_sha256(const torch::nn::Module& module);

}  // namespace lockstep::train
