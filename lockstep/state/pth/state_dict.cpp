// The search for the dict of tensors in a pickle, and validation of each tensor against the bounds of its storage.
#include <lockstep/base/text.h>
#include <lockstep/state/pth/state_dict.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>

namespace lockstep::state {
namespace {

/// The usual keys of the state dict in a checkpoint, the most usual first.
constexpr std::array<std::string_view, 10> kKeys = {"state_dict",  "model_state_dict", "model",  "module",
                                                    "net",         "network",          "params", "weights",
                                                    "model_state", "net_state_dict"};
constexpr std::array<std::string_view, 10> kReadDtypes = {"F64", "F32", "F16", "BF16", "I64",
                                                          "I32", "I16", "I8",  "U8",   "BOOL"};
constexpr int kMostNested = 8;  // a dict may contain itself
constexpr std::size_t kMostShown = 10;

/// The value under `key`, as in Python the one that was set last. 0: none.
PickleRef value_under(const Pickle& pickle, const PickleDict& dict, std::string_view key) {
  PickleRef found = 0;
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const auto* own = std::get_if<std::string_view>(&pickle[dict.items[i]]);
    if (own != nullptr && *own == key) found = dict.items[i + 1];
  }
  return found;
}

bool holds_tensors(const Pickle& pickle, const PickleDict& dict) {
  for (std::size_t i = 1; i < dict.items.size(); i += 2) {
    if (std::holds_alternative<PickleTensor>(pickle[dict.items[i]])) return true;
  }
  return false;
}

/// Searches for dicts of tensors. Visits each dict once, even if several paths lead to it.
class DictFinder {
 public:
  explicit DictFinder(const Pickle& pickle) : pickle_(pickle) {}

  /// Whether this is such a dict, or contains one under usual keys.
  bool leads_to_tensors(const PickleDict* dict, int depth = 0) {
    if (dict == nullptr || depth == kMostNested) return false;
    const auto [known, is_new] = known_.emplace(dict, false);
    if (!is_new) return known->second;
    const bool found = holds_tensors(pickle_, *dict) || std::ranges::any_of(kKeys, [&](std::string_view key) {
                         const auto under = value_under(pickle_, *dict, key);
                         return under != 0 && leads_to_tensors(find_items(pickle_, under), depth + 1);
                       });
    return known_[dict] = found;
  }

  /// The first few text keys of a dict under which there are tensors.
  std::vector<std::string_view> keys_to_tensors(const PickleDict& dict) {
    std::map<std::string_view, PickleRef> last;
    for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      const auto* key = std::get_if<std::string_view>(&pickle_[dict.items[i]]);
      if (key != nullptr) last.insert_or_assign(*key, dict.items[i + 1]);
    }
    std::vector<std::string_view> keys;
    for (const auto& [key, ref] : last) {
      if (keys.size() < kMostShown && leads_to_tensors(find_items(pickle_, ref))) keys.push_back(key);
    }
    return keys;
  }

 private:
  const Pickle& pickle_;
  std::map<const PickleDict*, bool> known_;
};

std::string name_of_place(const std::string& place) {
  return place.empty() ? "the file" : "\"" + cut_text(place) + "\"";
}

[[noreturn]] void no_tensors(const Pickle& pickle, const PickleDict& dict, const std::string& place,
                             const PthError& wrong) {
  std::vector<std::string> keys;
  const auto better = DictFinder(pickle).keys_to_tensors(dict);
  for (std::size_t i = 0; i + 1 < dict.items.size() && keys.size() < kMostShown; i += 2) {
    const auto* key = std::get_if<std::string_view>(&pickle[dict.items[i]]);
    if (key == nullptr) continue;
    const bool is_better = std::ranges::find(better, *key) != better.end();
    keys.push_back(fmt::format("\"{}\" ({})", cut_text(*key),
                               is_better ? "a dict of tensors" : kind_of(pickle, dict.items[i + 1])));
  }
  wrong("{} holds no tensors; it holds {}{}. Looked for are a state dict, or one under the keys {}; {}",
        name_of_place(place), keys.empty() ? "nothing" : fmt::to_string(fmt::join(keys, ", ")),
        2 * keys.size() < dict.items.size() ? ", ..." : "", fmt::join(kKeys, ", "),
        better.empty() ? std::string(kSavePlainly)
                       : fmt::format("choose one of them: model.weights_key={}{}", place.empty() ? "" : place + ".",
                                     cut_text(better.front())));
}

/// The dict to which `place` leads, key by key.
const PickleDict* follow(const Pickle& pickle, const PickleDict* dict, const std::string& place,
                         const PthError& wrong) {
  for (std::string_view rest = place; !rest.empty();) {
    // A key may contain dots: the longest existing key counts.
    auto key = rest;
    auto found = value_under(pickle, *dict, key);
    for (auto dot = key.rfind('.'); found == 0 && dot != std::string_view::npos; dot = key.rfind('.')) {
      key = key.substr(0, dot);
      found = value_under(pickle, *dict, key);
    }
    const auto* inner = found == 0 ? nullptr : find_items(pickle, found);
    if (inner == nullptr) {
      std::vector<std::string> keys;
      for (const auto each : DictFinder(pickle).keys_to_tensors(*dict)) keys.push_back(cut_text(each));
      wrong("model.weights_key is '{}', and there is no dict '{}' {}{}", cut_text(place), cut_text(rest),
            rest.size() == place.size() ? "in the file" : "there",
            keys.empty() ? std::string() : fmt::format("; dicts of tensors are: {}", fmt::join(keys, ", ")));
    }
    dict = inner;
    rest.remove_prefix(std::min(rest.size(), key.size() + 1));
  }
  return dict;
}

/// Reads the tensors of one dict, and reports errors by name.
class TensorReader {
 public:
  TensorReader(const Pickle& pickle, const StorageSizes& storages, const PthError& wrong)
      : pickle_(pickle), storages_(storages), wrong_(wrong) {}

  /// The reason why the tensor is not read; empty if read() accepts it.
  std::string obstacle(std::string_view name, const PickleTensor& tensor) {
    name_ = name;
    const auto& arguments = std::get<PickleTuple>(pickle_[tensor.arguments]).items;
    const bool untyped = tensor.form == TensorForm::untyped;
    if (const auto at = untyped ? 7U : 6U; arguments.size() > at && !is_plain(arguments[at])) {
      return "a conjugate or negative view, which Python saves plainly as tensor.resolve_conj().resolve_neg()";
    }
    const auto* storage = std::get_if<PickleStorage>(&pickle_[arguments[0]]);
    const auto* description = storage == nullptr ? nullptr : std::get_if<PickleTuple>(&pickle_[storage->description]);
    if (description == nullptr || description->items.size() < 2) return "";  // read() reports it
    for (const auto ref : {untyped ? arguments[6] : description->items[1], description->items[1]}) {
      const auto* elements = std::get_if<PickleElements>(&pickle_[ref]);
      if (elements == nullptr && std::holds_alternative<PickleGlobal>(pickle_[ref])) {
        return fmt::format("a tensor of {}", kind_of(pickle_, ref));
      }
      if (elements == nullptr) return "";
      const bool is_read = elements->is_untyped || std::ranges::find(kReadDtypes, elements->dtype) != kReadDtypes.end();
      if (!is_read) return fmt::format("a tensor of dtype {}", elements->dtype);
    }
    return "";
  }

  StoredTensor read(std::string_view name, const PickleTensor& tensor) {
    name_ = name;
    const auto& arguments = std::get<PickleTuple>(pickle_[tensor.arguments]).items;
    StoredTensor found{.name = std::string(name),
                       .dtype = {},
                       .sizes = sizes(arguments[2], "sizes"),
                       .strides = sizes(arguments[3], "strides"),
                       .offset = size(arguments[1], "offset"),
                       .storage = {}};
    if (tensor.form == TensorForm::untyped) {
      const auto& dtype = expect<PickleElements>(arguments[6], "dtype");
      found.dtype = dtype.dtype;
      found.element_bytes = dtype.element_bytes;
    }
    const auto elements = read_storage(expect<PickleStorage>(arguments[0], "storage"), found);
    if (found.strides.size() != found.sizes.size()) {
      wrong("has {} sizes and {} strides", found.sizes.size(), found.strides.size());
    }
    require_countable(found);
    require_within(found, elements);
    return found;
  }

 private:
  template <typename... Args>
  [[noreturn]] void wrong(fmt::format_string<Args...> format, Args&&... args) const {
    wrong_("tensor \"{}\" {}", cut_text(name_), fmt::format(format, std::forward<Args>(args)...));
  }

  template <typename T>
  const T& expect(PickleRef ref, std::string_view what) const {
    const auto* value = std::get_if<T>(&pickle_[ref]);
    if (value == nullptr) wrong("has a {} that is {}", what, kind_of(pickle_, ref));
    return *value;
  }

  std::int64_t size(PickleRef ref, std::string_view what) const {
    const auto value = expect<std::int64_t>(ref, what);
    if (value < 0) wrong("has {} in its {}; only numbers from 0 are possible", value, what);
    return value;
  }

  std::vector<std::int64_t> sizes(PickleRef ref, std::string_view what) const {
    const auto& items = expect<PickleTuple>(ref, what).items;
    if (items.size() > kMaxStoredDimensions) {
      wrong("has {} dimensions; at most {} are supported", items.size(), kMaxStoredDimensions);
    }
    std::vector<std::int64_t> values;
    for (const auto item : items) values.push_back(size(item, what));
    return values;
  }

  // Metadata may require that values in the file are negated or conjugated first.
  bool is_plain(PickleRef metadata) const {
    const auto* dict = std::get_if<PickleDict>(&pickle_[metadata]);
    return dict != nullptr ? dict->items.empty() : std::holds_alternative<std::monostate>(pickle_[metadata]);
  }

  /// Sets the storage, and the dtype if the storage has one; returns the number of elements.
  std::int64_t read_storage(const PickleStorage& storage, StoredTensor& tensor) {
    const auto& description = expect<PickleTuple>(storage.description, "storage").items;
    if (description.size() != 5 && description.size() != 6) {
      wrong("has a storage that is described by {} values, not 5 or 6", description.size());
    }
    const auto& storage_class = expect<PickleElements>(description[1], "class of storage");
    if (tensor.element_bytes == 0 && storage_class.is_untyped) wrong("is in a storage of bytes, and has no dtype");
    if (tensor.element_bytes == 0 || !storage_class.is_untyped) {
      tensor.dtype = storage_class.dtype;
      tensor.element_bytes = storage_class.element_bytes;
    }
    tensor.storage = expect<std::string_view>(description[2], "key of a storage");
    const auto elements = size(description[4], "storage");
    const auto found = storages_.find(tensor.storage);
    if (found == storages_.end()) {
      wrong("is in the storage \"{}\", which the file does not have", cut_text(tensor.storage));
    }
    const auto each = storage_class.element_bytes;
    if (found->second % each != 0 || found->second / each != static_cast<std::uint64_t>(elements)) {
      wrong("is in a storage of {} elements of {} bytes, which has {} bytes in the file", elements, each,
            found->second);
    }
    auto all = static_cast<std::int64_t>(found->second / tensor.element_bytes);
    if (description.size() == 6) all = view_of(description[5], all, tensor);
    return all;
  }

  /// A storage that is a part of another: (key of the view, offset, elements). Returns where the part ends.
  std::int64_t view_of(PickleRef view, std::int64_t elements, StoredTensor& tensor) const {
    if (std::holds_alternative<std::monostate>(pickle_[view])) return elements;
    const auto& items = expect<PickleTuple>(view, "view of its storage").items;
    if (items.size() != 3) wrong("has a view of its storage of {} values, not 3", items.size());
    const auto begin = size(items[1], "view of its storage");
    const auto count = size(items[2], "view of its storage");
    if (begin > elements || count > elements - begin) wrong("is in a part that reaches beyond its storage");
    if (tensor.offset > std::numeric_limits<std::int64_t>::max() - begin) wrong("begins beyond its storage");
    tensor.offset += begin;
    return begin + count;
  }

  // A size of 0 counts as 1, because strides multiply the rest.
  void require_countable(const StoredTensor& tensor) const {
    std::uint64_t limit = std::numeric_limits<std::int64_t>::max() / tensor.element_bytes;
    for (const auto each : tensor.sizes) {
      limit /= static_cast<std::uint64_t>(std::max<std::int64_t>(each, 1));
      if (limit == 0) wrong("has more bytes than 64 bits can count");
    }
  }

  void require_within(const StoredTensor& tensor, std::int64_t elements) const {
    if (std::ranges::find(tensor.sizes, 0) != tensor.sizes.end()) return;  // nothing is read
    bool within = tensor.offset < elements;
    auto room = elements - 1 - tensor.offset;  // elements behind the first
    for (std::size_t i = 0; within && i < tensor.sizes.size(); ++i) {
      const auto steps = tensor.sizes[i] - 1;
      const auto stride = tensor.strides[i];
      within = stride == 0 || steps <= room / stride;
      if (within) room -= steps * stride;
    }
    if (!within) {
      wrong("reaches beyond its storage of {} elements: sizes [{}], strides [{}], offset {}", elements,
            fmt::join(tensor.sizes, ", "), fmt::join(tensor.strides, ", "), tensor.offset);
    }
  }

  const Pickle& pickle_;
  const StorageSizes& storages_;
  const PthError& wrong_;
  std::string_view name_;
};

}  // namespace

StateDict read_state_dict(const Pickle& pickle, const StorageSizes& storages, const std::string& place,
                          const PthError& wrong) {
  const auto* dict = find_items(pickle, pickle.root);
  if (dict == nullptr) {
    wrong("the file holds {}, not a dict of tensors; {}", kind_of(pickle, pickle.root), kSavePlainly);
  }
  StateDict state;
  DictFinder finder(pickle);
  const auto enter = [&](std::string_view key) {
    for (std::size_t i = 0; i + 1 < dict->items.size(); i += 2) {  // entries that are not supported
      const auto* name = std::get_if<std::string_view>(&pickle[dict->items[i]]);
      if (name == nullptr || *name == key || !std::holds_alternative<PickleObject>(pickle[dict->items[i + 1]]))
        continue;
      state.others.emplace(cut_text(*name), kind_of(pickle, dict->items[i + 1]));
    }
    dict = find_items(pickle, value_under(pickle, *dict, key));
    state.place += fmt::format("{}{}", state.place.empty() ? "" : ".", key);
  };
  if (!place.empty()) {
    dict = follow(pickle, dict, place, wrong);
    state.place = place;
  }
  for (int depth = 0; place.empty() && depth < kMostNested; ++depth) {
    const auto* key = std::ranges::find_if(kKeys, [&](std::string_view each) {
      const auto under = value_under(pickle, *dict, each);
      return under != 0 && finder.leads_to_tensors(find_items(pickle, under));
    });
    if (key != kKeys.end()) {
      enter(*key);
      continue;
    }
    if (holds_tensors(pickle, *dict)) break;
    const auto keys = finder.keys_to_tensors(*dict);
    if (keys.size() != 1) break;
    enter(keys.front());
  }
  if (!holds_tensors(pickle, *dict)) no_tensors(pickle, *dict, state.place, wrong);

  TensorReader reader(pickle, storages, wrong);
  std::set<std::string_view> names;
  for (std::size_t i = 0; i + 1 < dict->items.size(); i += 2) {
    const auto& key = pickle[dict->items[i]];
    const auto* name = std::get_if<std::string_view>(&key);
    const auto* tensor = std::get_if<PickleTensor>(&pickle[dict->items[i + 1]]);
    if (name == nullptr) {
      if (tensor != nullptr) wrong("a tensor has {} for a name, not a text", kind_of(pickle, dict->items[i]));
      continue;
    }
    if (std::ranges::any_of(*name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; })) {
      wrong("the name \"{}\" has control characters", cut_text(*name));
    }
    if (!names.insert(*name).second) wrong("the name \"{}\" is there twice", cut_text(*name));
    if (tensor == nullptr) {
      state.others.emplace(*name, kind_of(pickle, dict->items[i + 1]));
    } else if (auto why = reader.obstacle(*name, *tensor); !why.empty()) {
      state.others.emplace(*name, std::move(why));
    } else {
      state.tensors.push_back(reader.read(*name, *tensor));
    }
  }
  return state;
}

std::map<std::string, std::uint32_t, std::less<>> element_bytes_of_storages(const Pickle& pickle) {
  std::map<std::string, std::uint32_t, std::less<>> found;
  for (const auto& value : pickle.values) {
    const auto* storage = std::get_if<PickleStorage>(&value);
    const auto* tuple = storage == nullptr ? nullptr : std::get_if<PickleTuple>(&pickle[storage->description]);
    if (tuple == nullptr || tuple->items.size() < 3) continue;
    const auto* elements = std::get_if<PickleElements>(&pickle[tuple->items[1]]);
    const auto* key = std::get_if<std::string_view>(&pickle[tuple->items[2]]);
    if (elements != nullptr && key != nullptr) found.emplace(*key, elements->element_bytes);
  }
  return found;
}

}  // namespace lockstep::state
