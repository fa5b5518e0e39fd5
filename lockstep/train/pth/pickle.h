// The pickle in a file of torch.save, as plain values. Nothing in it is run: it may name the few classes and functions
// that a state dict is made of, which are known here as names only.
//
// A pickle is a program without jumps for a machine with a stack and a numbered memory (the "memo"). Its opcodes are
// described in Python's Lib/pickletools.py; those of protocol 2 that Python's pickler writes are understood here.
// What it builds may contain itself, so values are kept in one table and refer to each other by their numbers.
#pragma once

#include <lockstep/train/pth/complaint.h>

#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

namespace lockstep::train {

/// Longest pickle that is read, in bytes. A value takes one byte of it at least, and 32 bytes of memory.
inline constexpr std::uint64_t kMaxPickle = 32'000'000;

using PickleRef = std::uint32_t;  ///< the number of a value in Pickle::values

struct PickleTuple {
  std::vector<PickleRef> items;
};
struct PickleList {
  std::vector<PickleRef> items;
};
/// A dict or an OrderedDict: key, value, key, value, ... in the order in which they were set. Keys may repeat.
struct PickleDict {
  std::vector<PickleRef> items;
};
/// A storage: the tuple that describes it, ("storage", class, key, location, elements), not looked at.
struct PickleStorage {
  PickleRef description = 0;
};
/// A tensor: the tuple of the arguments of torch._utils._rebuild_tensor_v2, not looked at.
struct PickleTensor {
  PickleRef arguments = 0;
};
/// torch.FloatStorage and the like.
struct PickleStorageClass {
  std::string_view dtype;           ///< as in safetensors_header.h: F32, BF16, I64, ...
  std::uint32_t element_bytes = 0;  ///< bytes of one element
};
enum class PickleFunction : std::uint8_t { ordered_dict, rebuild_tensor, rebuild_parameter };
/// An integer that 64 bits do not hold.
struct PickleLargeInteger {};

using PickleValue =
    std::variant<std::monostate, bool, std::int64_t, PickleLargeInteger, double, std::string_view, PickleTuple,
                 PickleList, PickleDict, PickleFunction, PickleStorageClass, PickleStorage, PickleTensor>;

struct Pickle {
  std::vector<PickleValue> values;  ///< texts are parts of the pickle's
  PickleRef root = 0;

  const PickleValue& operator[](PickleRef ref) const { return values[ref]; }
};

/// "None", "a number", "a dict", ...: for messages.
std::string_view kind_of(const PickleValue& value);

/// Reads a whole pickle; `text` must outlive the result. Time and memory are proportional to its length. Error(data)
/// names a class or function that is not known, or the byte where the pickle breaks a rule.
Pickle read_pickle(std::string_view text, const PthComplaint& wrong);

}  // namespace lockstep::train
