// The pickle in a file of torch.save, as plain values. No Python code runs: the few classes and functions of a state
// dict are known here only by name, and the result of any other function is an opaque value.
//
// A pickle is a program without jumps for a machine with a stack and a numbered memory (the "memo"). Its opcodes are
// described in Python's Lib/pickletools.py; this reader supports protocols 2 to 5. A value may contain itself, so
// values are kept in one table and refer to each other by their numbers.
#pragma once

#include <lockstep/state/pth/pth_error.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace lockstep::state {

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
/// A class or function of which only the name is known; both are texts.
struct PickleGlobal {
  PickleRef module = 0;
  PickleRef name = 0;
};
/// The result of a class or function, which is never called.
struct PickleObject {
  PickleRef of = 0;        ///< the class or function
  PickleRef contents = 0;  ///< the PickleDict of the items that were set in it; 0: none
  PickleRef state = 0;     ///< its attributes; 0: none
};
/// A storage: the tuple that describes it, ("storage", class, key, location, elements), not checked.
struct PickleStorage {
  PickleRef description = 0;
};
/// The function that makes a tensor in Python: torch._utils._rebuild_tensor or a similar one.
enum class TensorForm : std::uint8_t {
  typed,    ///< storage, offset, sizes, strides, ...: _rebuild_tensor and _rebuild_tensor_v2
  untyped,  ///< the same, with the dtype as the seventh: _rebuild_tensor_v3
};
/// A tensor: the tuple of those arguments. Only their number is checked.
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
/// An integer that does not fit into 64 bits.
struct PickleLargeInteger {};

using PickleValue = std::variant<std::monostate, bool, std::int64_t, PickleLargeInteger, double, std::string_view,
                                 PickleBytes, PickleTuple, PickleList, PickleDict, PickleFunction, PickleElements,
                                 PickleStorage, PickleTensor, PickleGlobal, PickleObject>;

struct Pickle {
  std::vector<PickleValue> values;  ///< texts are views of the pickle's text; the first value is None
  PickleRef root = 0;

  const PickleValue& operator[](PickleRef ref) const { return values[ref]; }
};

/// "None", "a number", "a dict", "an argparse.Namespace", ...: for messages.
std::string kind_of(const Pickle& pickle, PickleRef ref);

/// The items of a dict, or the items set in an object, whose class may be derived from dict; nullptr: none.
const PickleDict* find_items(const Pickle& pickle, PickleRef ref);

struct PickleRead {
  Pickle pickle;
  std::size_t bytes = 0;  ///< the length of the pickle in the text
};

/// Reads the pickle that `text` begins with; `text` must outlive the result. Time and memory are proportional to its
/// length. Error(data) names the byte at which the pickle is invalid.
PickleRead read_first_pickle(std::string_view text, const PthError& wrong);

/// The same; the pickle must end at the end of the text.
Pickle read_pickle(std::string_view text, const PthError& wrong);

}  // namespace lockstep::state
