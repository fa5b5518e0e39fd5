// The data set of a mapped token file, cut into windows; training has the beginning, evaluation the end.
#include <lockstep/base/error.h>
#include <lockstep/data/files/mapped_file.h>
#include <lockstep/data/files/token_file.h>
#include <lockstep/samples/text.h>

#include <ATen/ATen.h>

#include <cstddef>
#include <utility>

namespace lockstep::samples {
namespace {

class TextDataset final : public Dataset {
 public:
  TextDataset(data::MappedFile file, const TextOptions& options)
      : file_(std::move(file)),
        tokens_(file_.bytes(), options.tokens, options.vocabulary, options.file),
        length_(options.length) {}

  // The windows from token `first` on.
  void take(std::int64_t first, std::int64_t windows) {
    first_ = first;
    windows_ = windows;
  }

  std::int64_t tokens() const { return tokens_.size(); }
  std::int64_t size() const override { return windows_; }

  Sample get(std::int64_t index, const Chance&) const override {
    auto both = at::empty({length_ + 1}, at::kLong);
    tokens_.copy(first_ + index * length_, {both.data_ptr<std::int64_t>(), static_cast<std::size_t>(length_ + 1)});
    return {.tensors = {{kTokens, both.narrow(0, 0, length_)}, {kNext, both.narrow(0, 1, length_)}}};
  }

 private:
  data::MappedFile file_;
  data::TokenView tokens_;
  std::int64_t length_;
  std::int64_t first_ = 0;
  std::int64_t windows_ = 0;
};

}  // namespace

void describe(ConfigFields& fields, TextOptions& options) {
  fields.field("file", options.file, required(a_path()), "the text, or a file of tokens");
  fields.field("tokens", options.tokens, one_of({"bytes", "uint16", "uint32"}),
               "bytes: each byte of the file is a token; uint16, uint32: its numbers are, little-endian");
  fields.field("length", options.length, between(1, 1 << 20), "tokens of a sample; at most the model's context");
  fields.field("vocabulary", options.vocabulary, between(0, 4294967296.0),
               "tokens must be below it (give model.vocabulary); 0: any");
  fields.field("eval_share", options.eval_share, from_to_below(0, 1),
               "share at the end of the file to evaluate on; 0: no evaluation");
}

std::shared_ptr<const Dataset> load_text(const TextOptions& options, data::Split split) {
  if (split == data::Split::test && options.eval_share == 0) return nullptr;
  auto dataset = std::make_shared<TextDataset>(data::MappedFile(options.file, "data.file"), options);
  const auto all = dataset->tokens();
  const auto kept = static_cast<std::int64_t>(static_cast<double>(all) * options.eval_share);
  const auto first = split == data::Split::train ? 0 : all - kept;
  const auto windows = ((split == data::Split::train ? all - kept : kept) - 1) / options.length;
  if (windows < 1) {
    fail(ErrorKind::config, "data.file",
         "{} has {} tokens, of which data.eval_share leaves {} for {}: not one sample of data.length {}; give a longer "
         "text, or a smaller data.length",
         options.file, all, split == data::Split::train ? all - kept : kept, data::name(split), options.length);
  }
  dataset->take(first, windows);
  return dataset;
}

Batch text_example(const TextOptions& options) {
  Batch batch;
  batch.count = 1;
  for (const auto* name : {kTokens, kNext}) batch.tensors.emplace(name, at::zeros({1, options.length}, at::kLong));
  return batch;
}

}  // namespace lockstep::samples
