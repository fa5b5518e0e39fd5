// Readers of token shards that can resume: binary files at a token number, text and JSON lines at a byte and a token.
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/data/files/items.h>
#include <lockstep/data/files/mapped_file.h>
#include <lockstep/data/files/reports.h>
#include <lockstep/data/files/text_files.h>
#include <lockstep/data/files/token_file.h>
#include <lockstep/samples/text.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <utility>

namespace lockstep::samples {
namespace {

Sample sample_of(const at::Tensor& tokens, std::int64_t length) {
  return {.tensors = {{kTokens, tokens.narrow(0, 0, length)}, {kNext, tokens.narrow(0, 1, length)}}, .texts = {}};
}

/// A file of binary tokens: positions are token numbers.
class TokenFileReader final : public StreamReader {
 public:
  TokenFileReader(const data::TokenView& tokens, std::int64_t length, StreamPosition from)
      : tokens_(tokens), length_(length), next_(from.major) {}

  std::optional<Sample> next() override {
    if (next_ + length_ + 1 > tokens_.size()) return std::nullopt;
    auto both = at::empty({length_ + 1}, at::kLong);
    tokens_.copy(next_, {both.data_ptr<std::int64_t>(), static_cast<std::size_t>(length_ + 1)});
    next_ += length_;
    return sample_of(both, length_);
  }

  StreamPosition position() const override { return {next_, 0}; }

 private:
  const data::TokenView& tokens_;
  std::int64_t length_;
  std::int64_t next_;
};

/// A file of lines, each a document. A position is the byte where a line begins, and a token of its document.
class DocumentReader final : public StreamReader {
 public:
  DocumentReader(std::string_view text, std::string file, const TokenStreamOptions& options, StreamPosition from)
      : text_(text), file_(std::move(file)), options_(options), line_(from.major), first_(from.minor) {}

  std::optional<Sample> next() override {
    while (static_cast<std::int64_t>(tokens_.size()) < options_.length + 1) {
      if (!read_document()) return std::nullopt;
    }
    auto both = at::empty({options_.length + 1}, at::kLong);
    std::copy_n(tokens_.begin(), options_.length + 1, both.data_ptr<std::int64_t>());
    auto sample = sample_of(both, options_.length);
    if (!options_.loss_behind.empty()) {
      auto counted = at::empty({options_.length}, at::kBool);
      std::copy_n(counted_.begin() + 1, options_.length, counted.data_ptr<bool>());
      sample.tensors.emplace(kCounted, counted);
    }
    drop(options_.length);
    return sample;
  }

  StreamPosition position() const override {
    if (pieces_.empty()) return {line_, first_};
    return {pieces_.front().line, pieces_.front().first};
  }

  std::int64_t left_out() const { return left_out_; }

 private:
  struct Piece {
    std::int64_t line;   // where its line begins
    std::int64_t first;  // of its document's tokens
    std::int64_t count;
  };

  // False at the end of the file. An unusable document is an error, or has no tokens.
  bool read_document() {
    const auto begin = static_cast<std::size_t>(line_);
    if (begin >= text_.size()) return false;
    const auto end = std::min(text_.find('\n', begin), text_.size());
    auto line = text_.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    auto document = tokens_of(line, begin);
    const auto skipped = std::exchange(first_, 0);
    if (static_cast<std::int64_t>(document.size()) > skipped) {
      if (!options_.loss_behind.empty()) {
        const auto learnt = answer_in(document);
        for (auto i = static_cast<std::size_t>(skipped); i < document.size(); ++i) counted_.push_back(i >= learnt);
      }
      pieces_.push_back({line_, skipped, static_cast<std::int64_t>(document.size()) - skipped});
      tokens_.insert(tokens_.end(), document.begin() + skipped, document.end());
    }
    line_ = static_cast<std::int64_t>(end + 1);
    return true;
  }

  std::vector<std::int64_t> tokens_of(std::string_view line, std::size_t begin) {
    if (line.empty() && options_.format == "jsonl") return {};
    try {
      auto tokens = options_.format == "jsonl" ? data::json_tokens(line, options_.key) : data::byte_tokens(line);
      if (!options_.loss_behind.empty() && answer_in(tokens) > tokens.size()) {
        fail(ErrorKind::data, "data", "the document has no '{}', behind which the loss begins (data.loss_behind)",
             options_.loss_behind);
      }
      if (options_.separator >= 0) tokens.push_back(options_.separator);
      if (options_.vocabulary > 0) data::require_below(tokens, options_.vocabulary);
      return tokens;
    } catch (const Error& error) {
      if (options_.on_error == "skip" && error.kind() == ErrorKind::data) {
        ++left_out_;
        return {};
      }
      const auto number = std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(begin), '\n') + 1;
      const Error placed(error.kind(), error.where(), error.message(), {file_, static_cast<int>(number)});
      if (auto* taken = data::BadItemsTaken::current(); taken != nullptr && error.kind() == ErrorKind::data) {
        taken->take(placed);
        return {};
      }
      throw data::naming_way_out(placed);
    }
  }

  /// The position of the first token after the marker; beyond the end without a marker.
  std::size_t answer_in(const std::vector<std::int64_t>& document) const {
    const auto marker = data::byte_tokens(options_.loss_behind);
    const auto found = std::ranges::search(document, marker);
    if (found.empty()) return document.size() + 1;
    return static_cast<std::size_t>(found.end() - document.begin());
  }

  void drop(std::int64_t count) {
    tokens_.erase(tokens_.begin(), tokens_.begin() + count);
    if (!counted_.empty()) counted_.erase(counted_.begin(), counted_.begin() + count);
    while (count > 0) {
      auto& piece = pieces_.front();
      const auto part = std::min(count, piece.count);
      piece.first += part;
      piece.count -= part;
      count -= part;
      if (piece.count == 0) pieces_.pop_front();
    }
  }

  std::string_view text_;
  std::string file_;
  const TokenStreamOptions& options_;
  std::int64_t line_;
  std::int64_t first_;  // tokens of the next document that earlier samples used
  std::deque<std::int64_t> tokens_;
  std::deque<bool> counted_;  // whether each of tokens_ counts for the loss; empty without a marker
  std::deque<Piece> pieces_;  // the source documents of tokens_
  std::int64_t left_out_ = 0;
};

/// The number of bytes for the detection of the encoding.
std::string_view first_lines(std::string_view text) {
  constexpr std::size_t kMost = 1 << 20;
  return text.size() <= kMost ? text : text.substr(0, text.substr(0, kMost).rfind('\n') + 1);
}

class TokenStream final : public Stream {
 public:
  TokenStream(const TokenStreamOptions& options, const std::vector<std::string>& files, std::string_view key)
      : options_(options) {
    for (const auto& name : files) {
      files_.emplace_back(name, key);
      if (!is_binary()) continue;
      tokens_.emplace_back(files_.back().bytes(), options_.format, options_.vocabulary, name);
    }
  }

  std::int64_t shards() const override { return static_cast<std::int64_t>(files_.size()); }

  std::unique_ptr<StreamReader> open(std::int64_t shard, StreamPosition from) const override {
    if (is_binary()) {
      return std::make_unique<TokenFileReader>(tokens_[static_cast<std::size_t>(shard)], options_.length, from);
    }
    return documents(shard, from);
  }

  ShardIndex index(std::int64_t shard, std::int64_t window) const override {
    if (!is_binary()) return index_documents(shard, window);
    const auto tokens = tokens_[static_cast<std::size_t>(shard)].size();
    ShardIndex index{{}, std::max<std::int64_t>(0, (tokens - 1) / options_.length)};
    for (std::int64_t i = 0; i < index.samples; i += window) index.windows.push_back({i * options_.length, 0});
    return index;
  }

 private:
  bool is_binary() const { return options_.format != "lines" && options_.format != "jsonl"; }

  std::unique_ptr<DocumentReader> documents(std::int64_t shard, StreamPosition from) const {
    const auto& file = files_[static_cast<std::size_t>(shard)];
    const auto bytes = file.bytes();
    return std::make_unique<DocumentReader>(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
                                            file.name(), options_, from);
  }

  ShardIndex index_documents(std::int64_t shard, std::int64_t window) const {
    ShardIndex index;
    const auto& file = files_[static_cast<std::size_t>(shard)];
    const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
    if (options_.format == "jsonl") {
      data::check_encoding(first_lines(text), file.name());
    } else if (const auto why = data::why_not_utf8(first_lines(text), file.name())) {  // tokens are bytes nevertheless
      log_warning("{}: {}", file.name(), *why);
    }
    const auto reader = documents(shard, {});
    for (;;) {
      const auto position = reader->position();
      if (!reader->next()) break;
      if (index.samples++ % window == 0) index.windows.push_back(position);
    }
    if (reader->left_out() > 0) {
      log_warning("{} lines of {} cannot be used and were left out, because data.on_error is skip", reader->left_out(),
                  file.name());
    }
    return index;
  }

  TokenStreamOptions options_;
  std::deque<data::MappedFile> files_;
  std::deque<data::TokenView> tokens_;  // of files of binary tokens
};

/// The files of the list; a folder is replaced by all files in it, sorted by the bytes of their names.
std::vector<std::string> files_of(const std::vector<std::string>& names, std::string_view key) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (const auto& name : names) {
    std::error_code code;
    if (!fs::is_directory(name, code)) {
      files.push_back(name);
      continue;
    }
    const auto first = files.size();
    for (auto entry = fs::directory_iterator(name, code); !code && entry != fs::directory_iterator();
         entry.increment(code)) {
      const bool hidden = entry->path().filename().string().starts_with('.');
      if (entry->is_regular_file() && !hidden) files.push_back(entry->path().string());
    }
    if (code) fail(ErrorKind::io, key, "cannot list the folder {}: {}", name, code.message());
    if (files.size() == first) fail(ErrorKind::config, key, "the folder {} has no files", name);
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(first), files.end());
  }
  return files;
}

}  // namespace

void describe(ConfigFields& fields, TokenStreamOptions& options) {
  fields.field("train", options.train, required(a_path()), "files, or folders of them; each file is a shard");
  fields.field("eval", options.eval, a_path(), "the same for evaluation; empty: no evaluation");
  fields.field("format", options.format, one_of({"lines", "jsonl", "bytes", "uint16", "uint32"}),
               "lines: a document each; jsonl: a JSON object each; bytes, uint16, uint32: tokens one after the other");
  fields.field("key", options.key, anything(), "jsonl: the key of the document, a text or a list of tokens");
  fields.field("separator", options.separator, between(-1, 4294967295.0),
               "lines, jsonl: the token behind each document; -1: none");
  fields.field("vocabulary", options.vocabulary, between(0, 4294967296.0),
               "tokens must be below it (give model.vocabulary); 0: any");
  fields.field("length", options.length, between(1, 1 << 20), "tokens of a sample; at most the model's context");
  fields.field("window", options.window, between(1, 1 << 20), "samples of a shard that are read and shuffled together");
  data::describe_on_error(fields, options.on_error);
  fields.field("loss_behind", options.loss_behind, anything(),
               "lines, jsonl: only what is behind the first of these words in each document is learnt, for questions "
               "and answers, such as \"Answer: \"; empty: all of it");
}

std::shared_ptr<const Dataset> load_token_stream(const TokenStreamOptions& options, data::Split split) {
  const bool trains = split == data::Split::train;
  const auto* key = trains ? "data.train" : "data.eval";
  if (!options.loss_behind.empty() && options.format != "lines" && options.format != "jsonl") {
    fail(ErrorKind::config, "data.loss_behind",
         "is for documents, data.format lines or jsonl; {} has no places where one begins", options.format);
  }
  const auto files = files_of(trains ? options.train : options.eval, key);
  if (files.empty() && !trains) return nullptr;
  if (files.empty()) fail(ErrorKind::config, key, "names no files");
  auto stream = std::make_shared<TokenStream>(options, files, key);
  try {
    return from_stream(std::move(stream), {.window = options.window});
  } catch (const Error& error) {
    if (error.where() != "stream") throw;
    fail(ErrorKind::config, key, "not one of {} file(s), from {} on, has the {} tokens of a sample and the one behind",
         files.size(), files.front(), options.length);
  }
}

}  // namespace lockstep::samples
