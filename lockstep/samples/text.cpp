#include <lockstep/base/error.h>
#include <lockstep/samples/text.h>

#include <ATen/ATen.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

namespace lockstep::samples {
namespace {

std::vector<unsigned char> bytes_of(const std::string& name) {
  std::error_code code;
  if (!std::filesystem::exists(name, code)) {
    fail(ErrorKind::config, "data.file", "there is no file {}; give one with text", name);
  }
  errno = 0;
  std::ifstream in(name, std::ios::binary);
  std::vector<unsigned char> bytes{std::istreambuf_iterator<char>(in), {}};
  if (!in || std::filesystem::is_directory(name, code)) {
    fail(ErrorKind::io, "data.file", "cannot read {}: {}", name, std::generic_category().message(errno));
  }
  return bytes;
}

std::size_t width_of(const std::string& tokens) { return tokens == "uint16" ? 2 : tokens == "uint32" ? 4 : 1; }

class TextDataset final : public Dataset {
 public:
  TextDataset(std::vector<unsigned char> bytes, std::size_t width, std::int64_t first, std::int64_t windows,
              std::int64_t length)
      : bytes_(std::move(bytes)), width_(width), first_(first), windows_(windows), length_(length) {}

  std::int64_t size() const override { return windows_; }

  Sample get(std::int64_t index, const Chance&) const override {
    auto tokens = at::empty({length_}, at::kLong);
    auto next = at::empty({length_}, at::kLong);
    const std::int64_t begin = first_ + index * length_;
    for (std::int64_t i = 0; i < length_; ++i) {
      tokens.data_ptr<std::int64_t>()[i] = token(begin + i);
      next.data_ptr<std::int64_t>()[i] = token(begin + i + 1);
    }
    return {.tensors = {{kTokens, tokens}, {kNext, next}}};
  }

 private:
  // Byte by byte: the same on every machine.
  std::int64_t token(std::int64_t at) const {
    const auto* byte = &bytes_[static_cast<std::size_t>(at) * width_];
    std::uint32_t value = 0;
    for (std::size_t i = width_; i-- > 0;) value = value << 8 | byte[i];
    return value;
  }

  const std::vector<unsigned char> bytes_;
  const std::size_t width_;
  const std::int64_t first_;
  const std::int64_t windows_;
  const std::int64_t length_;
};

}  // namespace

void describe(ConfigFields& fields, TextOptions& options) {
  fields.field("file", options.file, required(), "the text, or a file of tokens");
  fields.field("tokens", options.tokens, one_of({"bytes", "uint16", "uint32"}),
               "bytes: each byte of the file is a token; uint16, uint32: its numbers are, little-endian");
  fields.field("length", options.length, between(1, 1 << 20), "tokens of a sample; at most the model's context");
  fields.field("eval_share", options.eval_share, from_to_below(0, 1),
               "share at the end of the file to evaluate on; 0: no evaluation");
}

std::shared_ptr<const Dataset> load_text(const TextOptions& options, data::Split split) {
  if (split == data::Split::test && options.eval_share == 0) return nullptr;
  auto bytes = bytes_of(options.file);
  const auto width = width_of(options.tokens);
  if (bytes.size() % width != 0) {
    fail(ErrorKind::data, "data.file", "{} has {} bytes, which is no multiple of the {} of a token ({})", options.file,
         bytes.size(), width, options.tokens);
  }
  const auto all = static_cast<std::int64_t>(bytes.size() / width);
  const auto kept = static_cast<std::int64_t>(static_cast<double>(all) * options.eval_share);
  const auto first = split == data::Split::train ? 0 : all - kept;
  const auto windows = ((split == data::Split::train ? all - kept : kept) - 1) / options.length;
  if (windows < 1) {
    fail(ErrorKind::config, "data.file",
         "{} has {} tokens, of which data.eval_share leaves {} for {}: not one sample of data.length {}; give a longer "
         "text, or a smaller data.length",
         options.file, all, split == data::Split::train ? all - kept : kept, data::name(split), options.length);
  }
  return std::make_shared<TextDataset>(std::move(bytes), width, first, windows, options.length);
}

Batch text_example(const TextOptions& options) {
  Batch batch;
  batch.count = 1;
  for (const auto* name : {kTokens, kNext}) batch.tensors.emplace(name, at::zeros({1, options.length}, at::kLong));
  return batch;
}

}  // namespace lockstep::samples
