#include <lockstep/train/pth/pickle.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace lockstep::train {
namespace {

struct KnownName {
  std::string_view module;
  std::string_view name;
  PickleValue value;
};

const std::array<KnownName, 13>& known_names() {
  static const std::array<KnownName, 13> kNames = {{
      {"collections", "OrderedDict", PickleFunction::ordered_dict},
      {"torch._utils", "_rebuild_tensor_v2", PickleFunction::rebuild_tensor},
      {"torch._utils", "_rebuild_parameter", PickleFunction::rebuild_parameter},
      {"torch", "DoubleStorage", PickleStorageClass{"F64", 8}},
      {"torch", "FloatStorage", PickleStorageClass{"F32", 4}},
      {"torch", "HalfStorage", PickleStorageClass{"F16", 2}},
      {"torch", "BFloat16Storage", PickleStorageClass{"BF16", 2}},
      {"torch", "LongStorage", PickleStorageClass{"I64", 8}},
      {"torch", "IntStorage", PickleStorageClass{"I32", 4}},
      {"torch", "ShortStorage", PickleStorageClass{"I16", 2}},
      {"torch", "CharStorage", PickleStorageClass{"I8", 1}},
      {"torch", "ByteStorage", PickleStorageClass{"U8", 1}},
      {"torch", "BoolStorage", PickleStorageClass{"BOOL", 1}},
  }};
  return kNames;
}

/// The machine that a pickle is a program for.
class Machine {
 public:
  Machine(std::string_view text, const PthComplaint& wrong) : text_(text), wrong_(wrong) {}

  Pickle run() {
    while (step(take_byte())) {
    }
    if (at_ != text_.size()) damaged("it goes on behind its end");
    return std::move(pickle_);
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

  void push(PickleValue value) {
    pickle_.values.push_back(std::move(value));
    stack_.push_back(static_cast<PickleRef>(pickle_.values.size() - 1));
  }

  PickleRef pop() {
    if (stack_.size() <= floor()) damaged("its stack is empty");
    const auto ref = stack_.back();
    stack_.pop_back();
    return ref;
  }

  /// The last values, in the order in which they were pushed.
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

  // Python's pickler numbers what it remembers from 0, so a number beyond the next is a mistake, and memory is bounded.
  void remember(std::uint64_t number) {
    if (number > memo_.size()) damaged("it skips numbers of its memory");
    const auto ref = top();
    if (number == memo_.size()) {
      memo_.push_back(ref);
    } else {
      memo_[number] = ref;
    }
  }

  void recall(std::uint64_t number) {
    if (number >= memo_.size()) damaged("it recalls what it never remembered");
    push_again(memo_[number]);
  }

  // ---- what opcodes do

  void set_items(const std::vector<PickleRef>& items) {
    if (items.size() % 2 != 0) damaged("a key of a dict has no value");
    auto& dict = expect<PickleDict>(top(), "it puts keys into what is not a dict").items;
    dict.insert(dict.end(), items.begin(), items.end());
  }

  void append(const std::vector<PickleRef>& items) {
    auto& list = expect<PickleList>(top(), "it appends to what is not a list").items;
    list.insert(list.end(), items.begin(), items.end());
  }

  void push_long() {
    const std::size_t width = take_byte();
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

  void push_known_name() {
    const auto module = take_line();
    const auto name = take_line();
    const auto* found = std::ranges::find_if(
        known_names(), [&](const KnownName& each) { return each.module == module && each.name == name; });
    if (found == known_names().end()) {
      wrong_(
          "it asks for {}.{}, which is not a part of a plain state dict, and Lockstep runs nothing that a file asks "
          "for. "
          "If you trust the file, {}",
          shown_name(module), shown_name(name), kSavePlainly);
    }
    push(found->value);
  }

  void call() {
    const auto argument = pop();
    const auto function = expect<PickleFunction>(pop(), "it calls what is not a function");
    const auto& arguments = expect<PickleTuple>(argument, "a function's arguments are not a tuple").items;
    switch (function) {
      case PickleFunction::ordered_dict:
        if (!arguments.empty()) damaged("an OrderedDict is made of something");
        return push(PickleDict());
      case PickleFunction::rebuild_tensor:
        if (arguments.size() < 6 || arguments.size() > 7) damaged("a tensor has not 6 or 7 arguments");
        return push(PickleTensor{argument});
      case PickleFunction::rebuild_parameter:
        if (arguments.empty()) damaged("a parameter has no tensor");
        expect<PickleTensor>(arguments.front(), "a parameter is not a tensor");
        return push_again(arguments.front());
    }
  }

  /// Attributes of an OrderedDict: a state dict's `_metadata`, which names the versions of Python's modules.
  void leave_out_attributes() {
    pop();
    expect<PickleDict>(top(), "it sets attributes of what is not an OrderedDict");
  }

  /// Carries out one opcode; false after the last.
  bool step(std::uint8_t opcode) {
    switch (opcode) {
      case 0x80: require_protocol(take_byte()); break;                                 // PROTO
      case '(': marks_.push_back(stack_.size()); break;                                // MARK
      case '0': pop(); break;                                                          // POP
      case 'N': push(PickleValue()); break;                                            // NONE
      case 0x88: push(true); break;                                                    // NEWTRUE
      case 0x89: push(false); break;                                                   // NEWFALSE
      case 'K': push(std::int64_t{take_byte()}); break;                                // BININT1
      case 'M': push(static_cast<std::int64_t>(take_number(2))); break;                // BININT2
      case 'J': push(std::int64_t{static_cast<std::int32_t>(take_number(4))}); break;  // BININT
      case 0x8A: push_long(); break;                                                   // LONG1
      case 'G': push_real(); break;                                                    // BINFLOAT
      case 'X': push(take(take_number(4))); break;                                     // BINUNICODE
      case ')': push(PickleTuple()); break;                                            // EMPTY_TUPLE
      case 0x85: push(PickleTuple{pop_last(1)}); break;                                // TUPLE1
      case 0x86: push(PickleTuple{pop_last(2)}); break;                                // TUPLE2
      case 0x87: push(PickleTuple{pop_last(3)}); break;                                // TUPLE3
      case 't': push(PickleTuple{pop_to_mark()}); break;                               // TUPLE
      case ']': push(PickleList()); break;                                             // EMPTY_LIST
      case 'a': append(pop_last(1)); break;                                            // APPEND
      case 'e': append(pop_to_mark()); break;                                          // APPENDS
      case '}': push(PickleDict()); break;                                             // EMPTY_DICT
      case 's': set_items(pop_last(2)); break;                                         // SETITEM
      case 'u': set_items(pop_to_mark()); break;                                       // SETITEMS
      case 'c': push_known_name(); break;                                              // GLOBAL
      case 'R': call(); break;                                                         // REDUCE
      case 'b': leave_out_attributes(); break;                                         // BUILD
      case 'Q': push(PickleStorage{pop()}); break;                                     // BINPERSID
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
    if (version == 2) return;
    wrong_(
        "it was saved with pickle protocol {}; torch.save writes protocol 2 unless it is told to do otherwise "
        "(pickle_protocol), and no other is read",
        version);
  }

  std::string_view text_;
  const PthComplaint& wrong_;
  std::size_t at_ = 0;
  Pickle pickle_;
  std::vector<PickleRef> stack_;
  std::vector<std::size_t> marks_;
  std::vector<PickleRef> memo_;
};

}  // namespace

std::string_view kind_of(const PickleValue& value) {
  constexpr std::array<std::string_view, std::variant_size_v<PickleValue>> kKinds = {
      "None",   "a truth value", "a number",   "a number",        "a number",  "a text",  "a tuple",
      "a list", "a dict",        "a function", "a storage class", "a storage", "a tensor"};
  return kKinds.at(value.index());
}

Pickle read_pickle(std::string_view text, const PthComplaint& wrong) {
  if (text.size() > kMaxPickle) {
    wrong("what is in the file beside tensors takes {} bytes; at most {} are read. If you trust the file, {}",
          text.size(), kMaxPickle, kSavePlainly);
  }
  return Machine(text, wrong).run();
}

}  // namespace lockstep::train
