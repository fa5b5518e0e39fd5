// The pickle in a file of torch.save, as plain values. Nothing in it is run: the few classes and functions that a state
// dict is made of are known here as names only, and what any other one would have made is an opaque value.
//
// A pickle is a program without jumps for a machine with a stack and a numbered memory (the "memo"). Its opcodes are
// described in Python's Lib/pickletools.py; those of protocols 2 to 5 are understood here.
// What it builds may contain itself, so values are kept in one table and refer to each other by their numbers.
#pragma once

#include <lockstep/train/pth/pth_error.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace lockstep::train {

/// Longest pickle that is read, in bytes. A value takes one byte of it at least, and 40 bytes of memory.
inline constexpr std::uint64_t kMaxPickle = 32'000'000;

using PickleRef = std::uint32_t;  ///< the number of a value in Pickle::values

struct PickleBytes {
  std::string_view bytes;
};
struct PickleTuple {
  std::vector<PickleRef> items;
};
/// A list or a set.
struct PickleList {
  std::vector<PickleRef> items;
};
/// A dict or an OrderedDict: key, value, key, value, ... in the order in which they were set. Keys may repeat.
struct PickleDict {
  std::vector<PickleRef> items;
};
/// A class or function by its name, of which nothing else is known; both are texts.
struct PickleGlobal {
  PickleRef module = 0;
  PickleRef name = 0;
};
/// What a class or function would have made, which is never called.
struct PickleObject {
  PickleRef of = 0;        ///< what would have been called
  PickleRef contents = 0;  ///< the PickleDict of the items that were set in it; 0: none were
  PickleRef state = 0;     ///< its attributes; 0: none were set
};
/// A storage: the tuple that describes it, ("storage", class, key, location, elements), not looked at.
struct PickleStorage {
  PickleRef description = 0;
};
/// How Python's torch would make a tensor, with torch._utils._rebuild_tensor and the like.
enum class TensorForm : std::uint8_t {
  typed,    ///< storage, offset, sizes, strides, ...: _rebuild_tensor and _rebuild_tensor_v2
  untyped,  ///< the same, with the dtype as the seventh: _rebuild_tensor_v3
};
/// A tensor: the tuple of those arguments, not looked at but for their number.
struct PickleTensor {
  PickleRef arguments = 0;
  TensorForm form = TensorForm::typed;
};
/// torch.FloatStorage and the like, or a dtype.
struct PickleElements {
  std::string_view dtype;           ///< as in safetensors_header.h: F32, BF16, I64, ...; others have names like C64
  std::uint32_t element_bytes = 0;  ///< bytes of one element
  bool is_untyped = false;          ///< a storage of bytes
};
enum class PickleFunction : std::uint8_t {
  ordered_dict,
  default_dict,
  rebuild_tensor,
  rebuild_tensor_v2,
  rebuild_tensor_v3,
  rebuild_parameter,
  rebuild_from_type,
};
/// An integer that 64 bits do not hold.
struct PickleLargeInteger {};

using PickleValue = std::variant<std::monostate, bool, std::int64_t, PickleLargeInteger, double, std::string_view,
                                 PickleBytes, PickleTuple, PickleList, PickleDict, PickleFunction, PickleElements,
                                 PickleStorage, PickleTensor, PickleGlobal, PickleObject>;

struct Pickle {
  std::vector<PickleValue> values;  ///< texts are parts of the pickle's; the first is None
  PickleRef root = 0;

  const PickleValue& operator[](PickleRef ref) const { return values[ref]; }
};

/// "None", "a number", "a dict", "an argparse.Namespace", ...: for messages.
std::string kind_of(const Pickle& pickle, PickleRef ref);

/// The items of a dict, or those that were set in an object, which may be of a class derived from dict; nullptr: none.
const PickleDict* find_items(const Pickle& pickle, PickleRef ref);

struct PickleRead {
  Pickle pickle;
  std::size_t bytes = 0;  ///< of the text that it took
};

/// Reads the pickle that `text` begins with; `text` must outlive the result. Time and memory are proportional to its
/// length. Error(data) names the byte where the pickle breaks a rule.
PickleRead read_first_pickle(std::string_view text, const PthError& wrong);

/// The same, of which nothing may be left.
Pickle read_pickle(std::string_view text, const PthError& wrong);

}  // namespace lockstep::train
