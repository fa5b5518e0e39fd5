// Named tensors: the form in which states are saved, compared and sent. Not thread-safe beside other uses of the
// tensors.
#pragma once

#include <map>
#include <string>

namespace at {
class Tensor;
}

namespace lockstep::state {

/// Ordered by name, byte by byte. Tensors of any shape and dtype; copies share their memory.
using NamedTensors = std::map<std::string, at::Tensor, std::less<>>;

/// Texts that are saved beside tensors.
using SavedMetadata = std::map<std::string, std::string, std::less<>>;

/// SHA-256 in hexadecimal over the tensors in the order of their names. Each adds the line "<name> <dtype>
/// [<d0>,<d1>,...]\n" (dtype as libtorch prints it, e.g. "Float") and then its elements, row major, in this machine's
/// byte order. A collective when global tensors are among them.
std::string sha256_of(const NamedTensors& tensors);

}  // namespace lockstep::state
