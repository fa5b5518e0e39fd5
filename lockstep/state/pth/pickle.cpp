// An interpreter of pickle opcodes, protocols 2 to 5, that builds plain values and calls no Python code.
#include <lockstep/base/text.h>
#include <lockstep/state/pth/pickle.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>

namespace lockstep::state {
namespace {

struct KnownName {
  std::string_view module;
  std::string_view name;
  PickleValue value;
};

PickleValue elements(std::string_view dtype, std::uint32_t bytes) { return PickleElements{dtype, bytes, false}; }

/// For dtypes that no tensor has here, the table has the element sizes of storages, so that the next storage is found.
const std::array<KnownName, 49>& known_names() {
  static const std::array<KnownName, 49> kNames = {{
      {"collections", "OrderedDict", PickleFunction::ordered_dict},
      {"collections", "defaultdict", PickleFunction::default_dict},
      {"torch._utils", "_rebuild_tensor", PickleFunction::rebuild_tensor},
      {"torch._utils", "_rebuild_tensor_v2", PickleFunction::rebuild_tensor_v2},
      {"torch._utils", "_rebuild_tensor_v3", PickleFunction::rebuild_tensor_v3},
      {"torch._utils", "_rebuild_parameter", PickleFunction::rebuild_parameter},
      {"torch._utils", "_rebuild_parameter_with_state", PickleFunction::rebuild_parameter},
      {"torch._tensor", "_rebuild_from_type_v2", PickleFunction::rebuild_from_type},
      {"torch", "DoubleStorage", elements("F64", 8)},
      {"torch", "FloatStorage", elements("F32", 4)},
      {"torch", "HalfStorage", elements("F16", 2)},
      {"torch", "BFloat16Storage", elements("BF16", 2)},
      {"torch", "LongStorage", elements("I64", 8)},
      {"torch", "IntStorage", elements("I32", 4)},
      {"torch", "ShortStorage", elements("I16", 2)},
      {"torch", "CharStorage", elements("I8", 1)},
      {"torch", "ByteStorage", elements("U8", 1)},
      {"torch", "BoolStorage", elements("BOOL", 1)},
      {"torch", "ComplexFloatStorage", elements("C64", 8)},
      {"torch", "ComplexDoubleStorage", elements("C128", 16)},
      {"torch", "QInt8Storage", elements("QI8", 1)},
      {"torch", "QUInt8Storage", elements("QU8", 1)},
      {"torch", "QInt32Storage", elements("QI32", 4)},
      {"torch", "QUInt4x2Storage", elements("QU4", 1)},
      {"torch", "QUInt2x4Storage", elements("QU2", 1)},
      {"torch", "UntypedStorage", PickleElements{"", 1, true}},
      {"torch.storage", "UntypedStorage", PickleElements{"", 1, true}},
      {"torch.storage", "_UntypedStorage", PickleElements{"", 1, true}},
      {"torch", "float64", elements("F64", 8)},
      {"torch", "float32", elements("F32", 4)},
      {"torch", "float16", elements("F16", 2)},
      {"torch", "bfloat16", elements("BF16", 2)},
      {"torch", "int64", elements("I64", 8)},
      {"torch", "int32", elements("I32", 4)},
      {"torch", "int16", elements("I16", 2)},
      {"torch", "int8", elements("I8", 1)},
      {"torch", "uint8", elements("U8", 1)},
      {"torch", "bool", elements("BOOL", 1)},
      {"torch", "uint16", elements("U16", 2)},
      {"torch", "uint32", elements("U32", 4)},
      {"torch", "uint64", elements("U64", 8)},
      {"torch", "complex32", elements("C32", 4)},
      {"torch", "complex64", elements("C64", 8)},
      {"torch", "complex128", elements("C128", 16)},
      {"torch", "float8_e4m3fn", elements("F8_E4M3", 1)},
      {"torch", "float8_e5m2", elements("F8_E5M2", 1)},
      {"torch", "float8_e4m3fnuz", elements("F8_E4M3FNUZ", 1)},
      {"torch", "float8_e5m2fnuz", elements("F8_E5M2FNUZ", 1)},
      {"torch", "float8_e8m0fnu", elements("F8_E8M0", 1)},
  }};
  return kNames;
}

/// The virtual machine that runs the program of a pickle.
class Machine {
 public:
  Machine(std::string_view text, const PthError& wrong) : text_(text), wrong_(wrong) {}

  PickleRead run() {
    pickle_.values.emplace_back();  // so that no other value has the number 0
    if (!text_.empty() && text_.front() != '\x80')
      damaged("it has no protocol number; forms of protocols 0 and 1 are not read");
    while (step(take_byte())) {
    }
    return {std::move(pickle_), at_};
  }

 private:
  [[noreturn]] void damaged(std::string_view what) const {
    wrong_("the pickle is damaged or no plain state dict (byte {} of {}: {}); {}", at_, text_.size(), what,
           kSavePlainly);
  }

  // ---- the program's bytes

  std::string_view take(std::uint64_t count) {
    if (count > text_.size() - at_) damaged("it was cut short");
    const auto bytes = text_.substr(at_, count);
    at_ += count;
    return bytes;
  }

  std::uint8_t take_byte() { return static_cast<std::uint8_t>(take(1).front()); }

  std::uint64_t take_number(std::size_t width) {
    const auto bytes = take(width);
    std::uint64_t value = 0;
    for (std::size_t i = width; i > 0; --i) value = value << 8U | static_cast<unsigned char>(bytes[i - 1]);
    return value;
  }

  std::string_view take_line() {
    const auto end = text_.find('\n', at_);
    if (end == std::string_view::npos) damaged("it was cut short");
    const auto line = take(end - at_);
    take(1);
    return line;
  }

  // ---- the stack

  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  void push_again(PickleRef ref) { stack_.push_back(ref); }

  PickleRef add(PickleValue value) {
    pickle_.values.push_back(std::move(value));
    return static_cast<PickleRef>(pickle_.values.size() - 1);
  }

  void push(PickleValue value) { stack_.push_back(add(std::move(value))); }

  PickleRef pop() {
    if (stack_.size() <= floor()) damaged("its stack is empty");
    const auto ref = stack_.back();
    stack_.pop_back();
    return ref;
  }

  void pop_or_unmark() {
    if (!marks_.empty() && marks_.back() == stack_.size()) {
      marks_.pop_back();
    } else {
      pop();
    }
  }

  /// Pops the last values, in the order in which they were pushed.
  std::vector<PickleRef> pop_last(std::size_t count) {
    if (stack_.size() - floor() < count) damaged("its stack is empty");
    std::vector<PickleRef> items(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return items;
  }

  std::vector<PickleRef> pop_to_mark() {
    if (marks_.empty()) damaged("it has no mark");
    auto items = pop_last(stack_.size() - marks_.back());
    marks_.pop_back();
    return items;
  }

  PickleRef top() const {
    if (stack_.size() <= floor()) damaged("its stack is empty");
    return stack_.back();
  }

  /// The value if it is a T.
  template <typename T>
  T& expect(PickleRef ref, std::string_view what) {
    auto* value = std::get_if<T>(&pickle_.values[ref]);
    if (value == nullptr) damaged(what);
    return *value;
  }

  // ---- the memo

  // Picklers number memo entries from 0, so numbers and memory are bounded by the length of the text; some numbers may
  // be left out.
  void remember(std::uint64_t number) {
    if (number > text_.size()) damaged("the number of a memo entry is too large");
    if (number >= memo_.size()) memo_.resize(number + 1);
    memo_[number] = top();
  }

  void recall(std::uint64_t number) {
    if (number >= memo_.size() || memo_[number] == 0) damaged("it reads a memo entry that it never stored");
    push_again(memo_[number]);
  }

  // ---- what opcodes do

  void set_items(const std::vector<PickleRef>& items) {
    if (items.size() % 2 != 0) damaged("a key of a dict has no value");
    const auto ref = top();
    if (auto* object = std::get_if<PickleObject>(&pickle_.values[ref])) {
      if (object->contents == 0) {
        const auto contents = add(PickleDict());
        std::get<PickleObject>(pickle_.values[ref]).contents = contents;
      }
      auto& into = std::get<PickleDict>(pickle_.values[std::get<PickleObject>(pickle_.values[ref]).contents]).items;
      into.insert(into.end(), items.begin(), items.end());
      return;
    }
    auto& dict = expect<PickleDict>(ref, "it puts keys into what is not a dict").items;
    dict.insert(dict.end(), items.begin(), items.end());
  }

  void append(const std::vector<PickleRef>& items) {
    if (std::holds_alternative<PickleObject>(pickle_.values[top()])) return;  // the list's content is not needed
    auto& list = expect<PickleList>(top(), "it appends to what is not a list").items;
    list.insert(list.end(), items.begin(), items.end());
  }

  void push_long(std::uint64_t width) {
    if (width > 8) {
      take(width);
      return push(PickleLargeInteger());
    }
    const auto unused = 64 - 8 * width;
    const auto value = width == 0 ? 0 : take_number(width) << unused;
    push(width == 0 ? std::int64_t{0} : static_cast<std::int64_t>(value) >> unused);
  }

  void push_real() {
    const auto bytes = take(8);  // the only number here that begins with its highest byte
    std::uint64_t bits = 0;
    for (const char byte : bytes) bits = bits << 8U | static_cast<unsigned char>(byte);
    push(std::bit_cast<double>(bits));
  }

  void push_name(PickleRef module_ref, PickleRef name_ref) {
    const auto module = expect<std::string_view>(module_ref, "a class's module is not a text");
    const auto name = expect<std::string_view>(name_ref, "a class's name is not a text");
    // Storages of devices have classes of the same names in other modules.
    const bool of_device = module.starts_with("torch.") && name.ends_with("Storage");
    const auto* found = std::ranges::find_if(known_names(), [&](const KnownName& each) {
      return each.name == name && (each.module == module || (of_device && each.module == "torch"));
    });
    push(found == known_names().end() ? PickleValue(PickleGlobal{module_ref, name_ref}) : found->value);
  }

  void push_name_of_lines() {
    const auto module = add(take_line());
    const auto name = add(take_line());
    push_name(module, name);
  }

  void push_name_of_stack() {
    const auto names = pop_last(2);
    push_name(names[0], names[1]);
  }

  bool is_tensor(PickleRef ref) const { return std::holds_alternative<PickleTensor>(pickle_.values[ref]); }

  /// [(key, value), ...], the form of old OrderedDicts; nullopt for other values.
  std::optional<PickleDict> dict_of_pairs(PickleRef ref) const {
    const auto* list = std::get_if<PickleList>(&pickle_.values[ref]);
    if (list == nullptr) return std::nullopt;
    PickleDict dict;
    for (const auto item : list->items) {
      const std::vector<PickleRef>* pair = nullptr;
      if (const auto* tuple = std::get_if<PickleTuple>(&pickle_.values[item])) pair = &tuple->items;
      if (const auto* inner = std::get_if<PickleList>(&pickle_.values[item])) pair = &inner->items;
      if (pair == nullptr || pair->size() != 2) return std::nullopt;
      dict.items.insert(dict.items.end(), pair->begin(), pair->end());
    }
    return dict;
  }

  /// The result of a known function for these arguments; nullopt if they are not torch's arguments.
  std::optional<PickleValue> made_by(PickleFunction function, PickleRef argument) const {
    const auto& arguments = std::get<PickleTuple>(pickle_.values[argument]).items;
    const auto count = arguments.size();
    switch (function) {
      case PickleFunction::ordered_dict:
        if (count == 0) return PickleDict();
        if (count == 1) return dict_of_pairs(arguments.front());
        return std::nullopt;
      case PickleFunction::default_dict: return count <= 1 ? std::optional<PickleValue>(PickleDict()) : std::nullopt;
      case PickleFunction::rebuild_tensor:
        if (count != 4) return std::nullopt;
        return PickleTensor{argument, TensorForm::typed};
      case PickleFunction::rebuild_tensor_v2:
        if (count != 6 && count != 7) return std::nullopt;
        return PickleTensor{argument, TensorForm::typed};
      case PickleFunction::rebuild_tensor_v3:
        if (count != 7 && count != 8) return std::nullopt;
        return PickleTensor{argument, TensorForm::untyped};
      case PickleFunction::rebuild_parameter:
        if (count == 0 || !is_tensor(arguments.front())) return std::nullopt;
        return pickle_.values[arguments.front()];
      case PickleFunction::rebuild_from_type: {  // function, type, arguments, state
        if (count != 4) return std::nullopt;
        const auto* inner = std::get_if<PickleFunction>(&pickle_.values[arguments[0]]);
        const bool calls = inner != nullptr && *inner != PickleFunction::rebuild_from_type;
        if (!calls || !std::holds_alternative<PickleTuple>(pickle_.values[arguments[2]])) return std::nullopt;
        return made_by(*inner, arguments[2]);
      }
    }
    return std::nullopt;
  }

  void call() {
    const auto argument = pop();
    const auto callee = pop();
    expect<PickleTuple>(argument, "a function's arguments are not a tuple");
    if (const auto* function = std::get_if<PickleFunction>(&pickle_.values[callee])) {
      if (auto made = made_by(*function, argument)) return push(std::move(*made));
    }
    push_object(callee);
  }

  void push_object(PickleRef of) {
    const auto& value = pickle_.values[of];
    const bool can_be_called =
        std::holds_alternative<PickleGlobal>(value) || std::holds_alternative<PickleObject>(value) ||
        std::holds_alternative<PickleFunction>(value) || std::holds_alternative<PickleElements>(value);
    if (!can_be_called) damaged("it calls what is not a function");
    push(PickleObject{of, 0, 0});
  }

  /// `object.__new__(class, *arguments)`.
  void make_object(std::size_t arguments) {
    const auto items = pop_last(1 + arguments);
    if (const auto* function = std::get_if<PickleFunction>(&pickle_.values[items.front()])) {
      const bool is_dict = *function == PickleFunction::ordered_dict || *function == PickleFunction::default_dict;
      if (is_dict) return push(PickleDict());
    }
    push_object(items.front());
  }

  /// Sets attributes of an object. For an OrderedDict they are a state dict's `_metadata`, which has the versions of
  /// modules.
  void set_state() {
    const auto state = pop();
    if (auto* object = std::get_if<PickleObject>(&pickle_.values[top()])) object->state = state;
  }

  /// Runs one opcode; false after the last one.
  bool step(std::uint8_t opcode) {
    switch (opcode) {
      case 0x80: require_protocol(take_byte()); break;                                 // PROTO
      case 0x95: take(8); break;                                                       // FRAME: a hint
      case '(': marks_.push_back(stack_.size()); break;                                // MARK
      case '0': pop_or_unmark(); break;                                                // POP
      case '1': pop_to_mark(); break;                                                  // POP_MARK
      case '2': push_again(top()); break;                                              // DUP
      case 'N': push(PickleValue()); break;                                            // NONE
      case 0x88: push(true); break;                                                    // NEWTRUE
      case 0x89: push(false); break;                                                   // NEWFALSE
      case 'K': push(std::int64_t{take_byte()}); break;                                // BININT1
      case 'M': push(static_cast<std::int64_t>(take_number(2))); break;                // BININT2
      case 'J': push(std::int64_t{static_cast<std::int32_t>(take_number(4))}); break;  // BININT
      case 0x8A: push_long(take_byte()); break;                                        // LONG1
      case 0x8B: push_long(take_number(4)); break;                                     // LONG4
      case 'G': push_real(); break;                                                    // BINFLOAT
      case 'X': push(take(take_number(4))); break;                                     // BINUNICODE
      case 0x8C: push(take(take_byte())); break;                                       // SHORT_BINUNICODE
      case 0x8D: push(take(take_number(8))); break;                                    // BINUNICODE8
      case 'T': push(take(take_number(4))); break;                                     // BINSTRING, Python 2's text
      case 'U': push(take(take_byte())); break;                                        // SHORT_BINSTRING
      case 'B': push(PickleBytes{take(take_number(4))}); break;                        // BINBYTES
      case 'C': push(PickleBytes{take(take_byte())}); break;                           // SHORT_BINBYTES
      case 0x8E: push(PickleBytes{take(take_number(8))}); break;                       // BINBYTES8
      case 0x96: push(PickleBytes{take(take_number(8))}); break;                       // BYTEARRAY8
      case ')': push(PickleTuple()); break;                                            // EMPTY_TUPLE
      case 0x85: push(PickleTuple{pop_last(1)}); break;                                // TUPLE1
      case 0x86: push(PickleTuple{pop_last(2)}); break;                                // TUPLE2
      case 0x87: push(PickleTuple{pop_last(3)}); break;                                // TUPLE3
      case 't': push(PickleTuple{pop_to_mark()}); break;                               // TUPLE
      case ']': push(PickleList()); break;                                             // EMPTY_LIST
      case 'a': append(pop_last(1)); break;                                            // APPEND
      case 'e': append(pop_to_mark()); break;                                          // APPENDS
      case 0x8F: push(PickleList()); break;                                            // EMPTY_SET
      case 0x90: append(pop_to_mark()); break;                                         // ADDITEMS
      case 0x91: push(PickleList{pop_to_mark()}); break;                               // FROZENSET
      case '}': push(PickleDict()); break;                                             // EMPTY_DICT
      case 's': set_items(pop_last(2)); break;                                         // SETITEM
      case 'u': set_items(pop_to_mark()); break;                                       // SETITEMS
      case 'c': push_name_of_lines(); break;                                           // GLOBAL
      case 0x93: push_name_of_stack(); break;                                          // STACK_GLOBAL
      case 'R': call(); break;                                                         // REDUCE
      case 0x81: make_object(1); break;                                                // NEWOBJ
      case 0x92: make_object(2); break;                                                // NEWOBJ_EX
      case 'b': set_state(); break;                                                    // BUILD
      case 'Q': push(PickleStorage{pop()}); break;                                     // BINPERSID
      case 0x94: remember(memo_.size()); break;                                        // MEMOIZE
      case 'q': remember(take_byte()); break;                                          // BINPUT
      case 'r': remember(take_number(4)); break;                                       // LONG_BINPUT
      case 'h': recall(take_byte()); break;                                            // BINGET
      case 'j': recall(take_number(4)); break;                                         // LONG_BINGET
      case '.':                                                                        // STOP
        pickle_.root = pop();
        if (!stack_.empty() || !marks_.empty()) damaged("something is left on its stack");
        return false;
      default: damaged(fmt::format("opcode 0x{:02x}, which no plain state dict has", opcode));
    }
    return true;
  }

  void require_protocol(int version) const {
    if (version >= 2 && version <= 5) return;
    wrong_("it was saved with pickle protocol {}; 2 to 5 are read, and torch.save writes 2", version);
  }

  std::string_view text_;
  const PthError& wrong_;
  std::size_t at_ = 0;
  Pickle pickle_;
  std::vector<PickleRef> stack_;
  std::vector<std::size_t> marks_;
  std::vector<PickleRef> memo_;  // 0: nothing
};

}  // namespace

std::string kind_of(const Pickle& pickle, PickleRef ref) {
  constexpr std::array<std::string_view, std::variant_size_v<PickleValue> - 2> kKinds = {
      "None",      "a truth value", "a number", "a number", "a number",   "a text",
      "bytes",     "a tuple",       "a list",   "a dict",   "a function", "a class of storages or a dtype",
      "a storage", "a tensor"};
  constexpr int kMostCalls = 8;  // nested calls on the result of a call
  for (int i = 0; i < kMostCalls; ++i) {
    const auto* object = std::get_if<PickleObject>(&pickle[ref]);
    if (object == nullptr) break;
    ref = object->of;
  }
  if (const auto* name = std::get_if<PickleGlobal>(&pickle[ref])) {
    return cut_text(fmt::format("{}.{}", std::get<std::string_view>(pickle[name->module]),
                                std::get<std::string_view>(pickle[name->name])));
  }
  const auto index = pickle[ref].index();
  return index < kKinds.size() ? std::string(kKinds[index]) : "an object";
}

const PickleDict* find_items(const Pickle& pickle, PickleRef ref) {
  if (const auto* object = std::get_if<PickleObject>(&pickle[ref])) {
    return object->contents == 0 ? nullptr : std::get_if<PickleDict>(&pickle[object->contents]);
  }
  return std::get_if<PickleDict>(&pickle[ref]);
}

PickleRead read_first_pickle(std::string_view text, const PthError& wrong) { return Machine(text, wrong).run(); }

Pickle read_pickle(std::string_view text, const PthError& wrong) {
  if (text.size() > kMaxPickle) {
    wrong("the file has {} bytes beside tensors; at most {} are read. If you trust the file, {}", text.size(),
          kMaxPickle, kSavePlainly);
  }
  auto read = read_first_pickle(text, wrong);
  if (read.bytes != text.size()) {
    wrong("the pickle is damaged or no plain state dict (byte {} of {}: it goes on behind its end); {}", read.bytes,
          text.size(), kSavePlainly);
  }
  return std::move(read.pickle);
}

}  // namespace lockstep::state
