// Files in the safetensors format. That Python reads and writes the same is tests/parity's matter.
#include "base/expect_error.h"
#include "support/read_file.h"
#include "train/small_network.h"

#include <lockstep/base/error.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/state/safetensors_header.h>
#include <lockstep/train/named_tensors.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <bit>
#include <fstream>
#include <functional>

namespace lockstep::train {
namespace {

using test::read_file;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string with_length(std::uint64_t length, std::string_view rest) {
  const auto bytes = std::bit_cast<std::array<char, 8>>(length);
  return std::string(bytes.begin(), bytes.end()).append(rest);
}

class Safetensors : public testing::Test {
 protected:
  std::string error_about(std::string_view json, std::string_view data = "") {
    write_file(path_, with_length(json.size(), std::string(json).append(data)));
    const auto message = test::message_of(ErrorKind::data, [&] { load_safetensors(path_); });
    EXPECT_THAT(message, HasSubstr("file.safetensors"));
    return message;
  }

  std::string error_about_bytes(std::string_view bytes) {
    write_file(path_, bytes);
    return test::message_of(ErrorKind::data, [&] { load_safetensors(path_); });
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "file.safetensors";
};

TEST_F(Safetensors, the_bytes_are_those_of_the_format) {
  save_safetensors(path_,
                   {{"b", torch::tensor({1, 2}, torch::kUInt8)},
                    {"a", torch::tensor({{1.0F}, {-2.0F}})},
                    {"c", torch::empty({0, 3})}},
                   {{"made_by", "test"}});
  const std::string json =
      R"({"__metadata__":{"made_by":"test"},"a":{"data_offsets":[0,8],"dtype":"F32","shape":[2,1]},)"
      R"("b":{"data_offsets":[8,10],"dtype":"U8","shape":[2]},"c":{"data_offsets":[8,8],"dtype":"F32","shape":[0,3]}})";
  const auto padded = json + std::string((8 - json.size() % 8) % 8, ' ');
  const std::string data("\x00\x00\x80\x3f\x00\x00\x00\xc0\x01\x02", 10);
  EXPECT_EQ(read_file(path_), with_length(padded.size(), padded + data));
}

TEST_F(Safetensors, every_dtype_comes_back_equal) {
  NamedTensors tensors;
  for (const auto dtype : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort,
                           at::kChar, at::kByte, at::kBool}) {
    tensors.emplace(at::toString(dtype), torch::tensor({0, 1, 1, 0, 100, 3}).reshape({2, 3}).to(dtype));
  }
  tensors.emplace("scalar", torch::tensor(7, at::kLong));
  tensors.emplace("empty", torch::empty({2, 0, 3}));
  tensors.emplace("transposed", torch::arange(6).reshape({2, 3}).t());
  tensors.emplace("every other", torch::arange(10).slice(0, 0, 10, 2));
  tensors.emplace("not finite", torch::tensor({INFINITY, -INFINITY, -0.0F}));
  tensors.emplace("näme \"quoted\" / with 日本", torch::ones({1}));
  save_safetensors(path_, tensors, {{"k", "v"}, {"ключ", "значение"}});

  const auto loaded = load_safetensors(path_);
  ASSERT_EQ(loaded.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    ASSERT_TRUE(loaded.contains(name)) << name;
    EXPECT_EQ(loaded.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(loaded.at(name).equal(tensor)) << name;
    EXPECT_TRUE(loaded.at(name).is_contiguous()) << name;
  }
  EXPECT_EQ(load_safetensors_metadata(path_), (SavedMetadata{{"k", "v"}, {"ключ", "значение"}}));
}

TEST_F(Safetensors, a_file_without_tensors_is_fine) {
  save_safetensors(path_, {});
  EXPECT_TRUE(load_safetensors(path_).empty());
  EXPECT_TRUE(load_safetensors_metadata(path_).empty());
}

TEST_F(Safetensors, every_tensor_is_aligned_to_its_elements) {
  save_safetensors(
      path_,
      {{"a", torch::ones({3}, at::kByte)}, {"b", torch::ones({1}, at::kDouble)}, {"c", torch::ones({3}, at::kHalf)}});
  const auto bytes = read_file(path_);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0U);
  const auto header = parse_safetensors_header(bytes.substr(8, length), bytes.size() - 8 - length, path_);
  ASSERT_EQ(header.entries.size(), 3U);
  for (const auto& entry : header.entries)
    EXPECT_EQ(entry.begin % safetensors_element_bytes(entry.dtype), 0U) << entry.name;
}

TEST_F(Safetensors, what_the_format_cannot_hold_is_refused_before_anything_is_written) {
  write_file(path_, "old");
  const auto refused = [&](const NamedTensors& tensors, const SavedMetadata& metadata = {}) {
    return test::message_of(ErrorKind::invalid_argument, [&] { save_safetensors(path_, tensors, metadata); });
  };
  EXPECT_THAT(refused({{"c", torch::ones({1}, at::kComplexFloat)}}),
              AllOf(HasSubstr("\"c\""), HasSubstr("ComplexFloat")));
  EXPECT_THAT(refused({{"s", torch::ones({2, 2}).to_sparse()}}), HasSubstr("sparse"));
  EXPECT_THAT(refused({{"u", at::Tensor()}}), HasSubstr("\"u\" is undefined"));
  EXPECT_THAT(refused({{"__metadata__", torch::ones({1})}}), HasSubstr("__metadata__"));
  EXPECT_THAT(refused({{"bad \xff", torch::ones({1})}}), HasSubstr("UTF-8"));
  EXPECT_THAT(refused({}, {{"k", "bad \xff"}}), HasSubstr("UTF-8"));
  EXPECT_EQ(read_file(path_), "old");
}

TEST_F(Safetensors, a_folder_that_is_not_there_is_an_io_error) {
  const auto nowhere = folder_.path() / "missing" / "file.safetensors";
  EXPECT_THAT(test::message_of(ErrorKind::io, [&] { save_safetensors(nowhere, {}); }), HasSubstr("missing"));
  EXPECT_THAT(test::message_of(ErrorKind::io, [&] { load_safetensors(nowhere); }), HasSubstr("missing"));
  EXPECT_THAT(test::message_of(ErrorKind::data, [&] { load_safetensors(folder_.path()); }), HasSubstr("a folder"));
}

TEST_F(Safetensors, hostile_header_lengths_are_refused) {
  EXPECT_THAT(error_about_bytes(""), HasSubstr("0 bytes"));
  EXPECT_THAT(error_about_bytes("\1\2\3\4\5\6\7"), HasSubstr("7 bytes"));
  EXPECT_THAT(error_about_bytes(with_length(~0ULL, "{}")), HasSubstr("18446744073709551615 bytes; at most 2"));
  EXPECT_THAT(error_about_bytes(with_length(3, "{}")), HasSubstr("3 bytes; at most 2"));
  EXPECT_THAT(error_about_bytes(with_length(0, "{}")), HasSubstr("does not begin with '{'"));
  write_file(path_, with_length(150'000'000, "{"));
  std::filesystem::resize_file(path_, 200'000'000);  // sparse
  EXPECT_THAT(test::message_of(ErrorKind::data, [&] { load_safetensors(path_); }), HasSubstr("at most 100000000"));
}

// In time that grows with their number alone, or this does not end.
TEST_F(Safetensors, headers_of_many_tensors) {
  constexpr std::size_t kTensors = 300'000;
  std::string header = "{";
  for (std::size_t i = 0; i < kTensors; ++i) {
    header += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[" +
              std::to_string(i) + "," + std::to_string(i + 1) + "]}";
  }
  const auto read = parse_safetensors_header(header + "}", kTensors, path_);
  EXPECT_EQ(read.entries.size(), kTensors);
}

TEST_F(Safetensors, headers_that_are_not_what_they_should_be_are_refused) {
  EXPECT_THAT(error_about("[]"), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(error_about("{"), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_about("{} x"), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_about("{\"\xff\": 1}"), HasSubstr("not valid JSON"));
  // Of 640 bytes, 0x280: what pickles begin with.
  EXPECT_THAT(error_about("{" + std::string(639, ' ')), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_about(std::string(100'000, '{')), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_about("{\"a\":" + std::string(100'000, '[')), HasSubstr("nested"));
  EXPECT_THAT(error_about(R"({"__metadata__":{"a":1}})"), AllOf(HasSubstr("__metadata__"), HasSubstr("string")));
  EXPECT_THAT(error_about(R"({"__metadata__":3})"), HasSubstr("__metadata__"));
  EXPECT_THAT(error_about(R"({"__metadata__":{},"__metadata__":{}})"), HasSubstr("\"__metadata__\" twice"));
}

TEST_F(Safetensors, tensors_described_wrongly_are_named) {
  EXPECT_THAT(error_about(R"({"w":3})"), AllOf(HasSubstr("\"w\""), HasSubstr("object")));
  EXPECT_THAT(error_about(R"({"w":{"dtype":"F32","shape":[]}})"), HasSubstr("no \"data_offsets\""));
  EXPECT_THAT(error_about(R"({"w":{"dtype":"F33","shape":[],"data_offsets":[0,4]}})", "1234"),
              AllOf(HasSubstr("\"w\""), HasSubstr("\"F33\"")));
  EXPECT_THAT(error_about(R"({"w":{"dtype":4,"shape":[],"data_offsets":[0,4]}})", "1234"), HasSubstr("not a string"));
  for (const char* shape : {"[-1]", "[1.0]", "[\"1\"]", "[18446744073709551615]", "3"}) {
    EXPECT_THAT(error_about(fmt::format(R"({{"w":{{"dtype":"F32","shape":{},"data_offsets":[0,4]}}}})", shape), "1234"),
                AllOf(HasSubstr("\"w\""), HasSubstr("\"shape\"")))
        << shape;
  }
  for (const char* offsets : {"[0]", "[0,4,8]", "[0,-4]", "[0.0,4]", "4"}) {
    EXPECT_THAT(error_about(fmt::format(R"({{"w":{{"dtype":"F32","shape":[1],"data_offsets":{}}}}})", offsets), "1234"),
                AllOf(HasSubstr("\"w\""), HasSubstr("data_offsets")))
        << offsets;
  }
  EXPECT_THAT(error_about(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "1234"), HasSubstr("before"));
  EXPECT_THAT(error_about(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234"),
              AllOf(HasSubstr("4 bytes"), HasSubstr("need 8")));
  EXPECT_THAT(error_about(R"({"w":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})"),
              HasSubstr("64 bits"));
  EXPECT_THAT(error_about(R"({"w":{"dtype":"U8","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}})"),
              HasSubstr("64 bits"));
  EXPECT_THAT(error_about(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"dtype":"I8"}})", "1"),
              HasSubstr("\"dtype\" twice"));
  EXPECT_THAT(error_about(R"({"w":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", "\x01\x02"),
              AllOf(HasSubstr("\"w\""), HasSubstr("BOOL")));
  std::string ones = "1";
  for (int i = 0; i < 64; ++i) ones += ",1";
  const auto deep = fmt::format(R"({{"w":{{"dtype":"U8","shape":[{}],"data_offsets":[0,1]}}}})", ones);
  EXPECT_THAT(error_about(deep, "1"), HasSubstr("65 dimensions"));
}

TEST_F(Safetensors, tensors_must_cover_the_data_once) {
  const auto two = [](const char* first, const char* second) {
    return fmt::format(
        R"({{"v":{{"dtype":"U8","shape":[2],"data_offsets":{}}},"w":{{"dtype":"U8","shape":[2],"data_offsets":{}}}}})",
        first, second);
  };
  write_file(path_, with_length(two("[2,4]", "[0,2]").size(), two("[2,4]", "[0,2]") + "abcd"));
  EXPECT_EQ(load_safetensors(path_).at("v")[0].item<int>(), 'c');
  EXPECT_THAT(error_about(two("[0,2]", "[2,4]"), "abc"), AllOf(HasSubstr("\"w\""), HasSubstr("cut short")));
  EXPECT_THAT(error_about(two("[0,2]", "[2,4]"), "abcde"), HasSubstr("describes 4 bytes"));
  EXPECT_THAT(error_about(two("[0,2]", "[1,3]"), "abc"), AllOf(HasSubstr("\"w\""), HasSubstr("overlaps")));
  EXPECT_THAT(error_about(two("[0,2]", "[3,5]"), "abcde"), AllOf(HasSubstr("\"w\""), HasSubstr("gap")));
  EXPECT_THAT(error_about(two("[1,3]", "[3,5]"), "abcde"), AllOf(HasSubstr("\"v\""), HasSubstr("gap")));
  const std::string same_name =
      R"({"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"w":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})";
  EXPECT_THAT(error_about(same_name, "abcd"), HasSubstr("\"w\" twice"));
}

TEST_F(Safetensors, a_file_cut_short_anywhere_is_an_error) {
  save_safetensors(path_, {{"a", torch::ones({4})}, {"b", torch::ones({3}, at::kShort)}});
  const auto whole = read_file(path_);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(error_about_bytes(whole.substr(0, length)), "") << length;
  }
}

TEST_F(Safetensors, a_changed_byte_of_the_header_is_an_error_or_a_smaller_change_but_never_a_crash) {
  save_safetensors(path_, {{"a", torch::ones({4})}, {"b", torch::ones({3}, at::kBool)}}, {{"k", "v"}});
  const auto whole = read_file(path_);
  int refused = 0;
  int tried = 0;
  for (std::size_t place = 0; place + 19 < whole.size(); ++place) {
    for (const int flip : {0x01, 0x10, 0x80}) {
      auto damaged = whole;
      damaged[place] = static_cast<char>(damaged[place] ^ flip);
      write_file(path_, damaged);
      ++tried;
      try {
        EXPECT_EQ(load_safetensors(path_).size(), 2U);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::data) << error.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, tried / 2);
}

TEST_F(Safetensors, a_file_of_torch_save_is_named) {
  torch::save(torch::ones({3}), path_.string());
  EXPECT_THAT(test::message_of(ErrorKind::data, [&] { load_safetensors(path_); }),
              AllOf(HasSubstr("a zip archive"), HasSubstr("safetensors.torch.save_file")));
}

TEST_F(Safetensors, weights_go_from_one_module_to_another) {
  auto source = test::small_network();
  source->forward(torch::rand({8, 3}));  // moves the running statistics
  save_weights(*source, path_, {{"step", "1"}});
  auto target = test::small_network();
  load_weights(*target, path_);
  const auto expected = test::state_of(*source);
  EXPECT_EQ(expected.size(), 7U);
  for (const auto& [name, tensor] : test::state_of(*target)) EXPECT_TRUE(tensor.equal(expected.at(name))) << name;
  EXPECT_TRUE(target->parameters()[0].requires_grad());
  EXPECT_EQ(load_safetensors_metadata(path_).at("step"), "1");
}

TEST_F(Safetensors, floating_weights_are_converted) {
  torch::nn::Linear source(3, 2);
  source->to(at::kBFloat16);
  save_weights(*source, path_);
  torch::nn::Linear target(3, 2);
  load_weights(*target, path_);
  EXPECT_EQ(target->parameters()[0].scalar_type(), at::kFloat);
  EXPECT_TRUE(target->parameters()[0].equal(source->parameters()[0].to(at::kFloat)));
}

TEST_F(Safetensors, weights_of_another_model_are_refused_as_a_whole) {
  auto module = test::small_network();
  auto tensors = test::state_of(*module);
  tensors.erase("0.bias");
  tensors["0.weight"] = torch::zeros({2, 4});
  tensors["1.num_batches_tracked"] = torch::zeros({});
  tensors["9.weight"] = torch::zeros({1});
  save_safetensors(path_, tensors);
  const auto before = module->parameters()[0].clone();
  EXPECT_THAT(test::message_of(ErrorKind::data, [&] { load_weights(*module, path_); }),
              AllOf(HasSubstr("missing in the file (1): 0.bias"), HasSubstr("unknown to the model (1): 9.weight"),
                    HasSubstr("0.weight is Float [2, 4] in the file, Float [2, 3] in the module"),
                    HasSubstr("1.num_batches_tracked is Float [] in the file, Long [] in the module"),
                    HasSubstr("file.safetensors")));
  EXPECT_TRUE(module->parameters()[0].equal(before));
}

TEST_F(Safetensors, a_parameter_of_two_modules_is_stored_under_both_names) {
  torch::nn::Linear linear(2, 2);
  torch::nn::Sequential twice(linear, torch::nn::ReLU(), linear);
  save_weights(*twice, path_);
  EXPECT_EQ(load_safetensors(path_).size(), 4U);
  load_weights(*twice, path_);
  EXPECT_TRUE(twice->named_parameters()["0.weight"].is_same(twice->named_parameters()["2.weight"]));
}

}  // namespace
}  // namespace lockstep::train
