// The state of a module as named tensors. The functions are collectives when global tensors are among the tensors. Not
// thread-safe beside other uses of the tensors.
#pragma once

#include <lockstep/state/named_tensors.h>

#include <string>

namespace torch::nn {
class Module;
}

namespace lockstep::train {

// Programs use NamedTensors, save_sharded and the other names of state/ as names of train/.
using namespace state;

/// All parameters and buffers, sharing the module's memory.
NamedTensors module_state(const torch::nn::Module& module);

/// Error(data) naming the first tensor that is missing, unexpected, or of another shape or dtype than the module's.
/// Reads no values: they may be tensors of the meta device.
void require_module_state(const torch::nn::Module& module, const NamedTensors& state);

/// Copies a state into the module. Errors of require_module_state, which leave it unchanged.
void load_module_state(torch::nn::Module& module, const NamedTensors& state);

/// `params_sha256` of result.json: sha256_of(module_state(module)).
std::string params_sha256(const torch::nn::Module& module);

}  // namespace lockstep::train
