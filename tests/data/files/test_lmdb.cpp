// LMDB files beside the library that writes them, and damaged ones.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/data/files/lmdb.h>

#include <gtest/gtest.h>
#include <lmdb.h>

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/expect_error.h"
#include "support/read_file.h"

namespace lockstep::test {
namespace {

void must(int code) { ASSERT_EQ(code, MDB_SUCCESS) << mdb_strerror(code); }

void write_lmdb(const std::filesystem::path& folder, const std::map<std::string, std::string>& entries,
                unsigned flags = 0) {
  std::filesystem::create_directories(folder);
  MDB_env* environment = nullptr;
  must(mdb_env_create(&environment));
  must(mdb_env_set_mapsize(environment, 64u << 20));
  must(mdb_env_open(environment, folder.c_str(), 0, 0644));
  MDB_txn* transaction = nullptr;
  must(mdb_txn_begin(environment, nullptr, 0, &transaction));
  MDB_dbi database = 0;
  must(mdb_dbi_open(transaction, nullptr, flags, &database));
  for (const auto& [key, value] : entries) {
    MDB_val name{key.size(), const_cast<char*>(key.data())};
    MDB_val data{value.size(), const_cast<char*>(value.data())};
    must(mdb_put(transaction, database, &name, &data, 0));
  }
  must(mdb_txn_commit(transaction));
  mdb_env_close(environment);
}

std::map<std::string, std::string> many_entries() {
  std::map<std::string, std::string> entries;
  for (int i = 0; i < 3000; ++i) entries.emplace(fmt::format("key-{:06}", i * 7), fmt::format("value {}", i));
  entries.emplace("long", std::string(100'000, 'x'));  // in pages of its own
  entries.emplace("page", std::string(4096, 'y'));
  entries.emplace("empty", "");
  return entries;
}

std::optional<std::string> text_of(const std::optional<std::span<const std::uint8_t>>& value) {
  if (!value) return std::nullopt;
  return std::string(value->begin(), value->end());
}

TEST(Lmdb, FindsWhatTheLibraryWrote) {
  const TemporaryFolder folder;
  const auto entries = many_entries();
  write_lmdb(folder.path() / "one", entries);
  const data::LmdbFile file(folder.path() / "one", "data.train");
  EXPECT_EQ(file.view().entries(), entries.size());
  for (const auto& [key, value] : entries) ASSERT_EQ(text_of(file.view().find(key)), value) << key;
  for (const auto* key : {"", "a", "key-000001", "key-020994", "key", "zzz"})
    EXPECT_FALSE(file.view().find(key)) << key;
  EXPECT_EQ(text_of(data::LmdbFile(folder.path() / "one" / "data.mdb", "data.train").view().find("page")),
            std::string(4096, 'y'));
}

TEST(Lmdb, TheNewerOfTwoTransactionsCounts) {
  const TemporaryFolder folder;
  write_lmdb(folder.path(), {{"a", "1"}, {"b", "1"}});
  write_lmdb(folder.path(), {{"a", "2"}});
  write_lmdb(folder.path(), {{"c", "3"}});
  const data::LmdbFile file(folder.path(), "data.train");
  EXPECT_EQ(text_of(file.view().find("a")), "2");
  EXPECT_EQ(text_of(file.view().find("b")), "1");
  EXPECT_EQ(text_of(file.view().find("c")), "3");
}

TEST(Lmdb, AnEmptyDatabaseHasNoKeys) {
  const TemporaryFolder folder;
  write_lmdb(folder.path(), {});
  const data::LmdbFile file(folder.path(), "data.train");
  EXPECT_EQ(file.view().entries(), 0U);
  EXPECT_FALSE(file.view().find("a"));
}

TEST(Lmdb, WhatIsNoSuchFileIsSaid) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "data.mdb";
  const auto open = [&] { data::LmdbFile(folder.path(), "data.train"); };
  expect_error(ErrorKind::config, {"data.train", "data.mdb"}, open);
  expect_error(ErrorKind::config, {"data.train", "/nowhere"}, [] { data::LmdbFile("/nowhere", "data.train"); });
  std::ofstream(file) << "no database";
  expect_error(ErrorKind::data, {file.string(), "no LMDB file"}, open);
  std::ofstream(file, std::ios::trunc).close();
  expect_error(ErrorKind::data, {file.string(), "no LMDB file"}, open);
  std::filesystem::remove(file);
  write_lmdb(folder.path(), {{"a", "1"}}, MDB_CREATE | MDB_REVERSEKEY);
  expect_error(ErrorKind::data, {file.string(), "reverse keys"}, open);
}

TEST(Lmdb, AFileThatIsCutOffIsSaidAtOnce) {
  const TemporaryFolder folder;
  write_lmdb(folder.path(), many_entries());
  const auto file = folder.path() / "data.mdb";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 8192);
  expect_error(ErrorKind::data, {file.string(), "cut off"}, [&] { data::LmdbFile(folder.path(), "data.train"); });
}

// Whatever byte is wrong, a look-up gives a value within the file, none, or an error that names file and key.
TEST(Lmdb, NoDamageLeadsOutsideOfTheFile) {
  const TemporaryFolder folder;
  std::map<std::string, std::string> entries;
  for (int i = 0; i < 200; ++i) entries.emplace(fmt::format("k{}", i), std::string(40, 'v'));
  entries.emplace("long", std::string(20'000, 'x'));
  write_lmdb(folder.path(), entries);
  const auto whole = read_file(folder.path() / "data.mdb");
  int refused = 0, named = 0;
  for (std::size_t at = 0; at < whole.size(); at += at < 600 ? 1 : 37) {
    for (const char value : {'\0', '\x7f', '\xff'}) {
      auto bytes = whole;
      bytes[at] = value;
      const std::span<const std::uint8_t> span(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
      try {
        const data::LmdbView view(span, "damaged.mdb");
        for (const auto* key : {"k0", "k150", "long"}) {
          try {
            const auto found = view.find(key);
            if (!found || found->empty()) continue;
            ASSERT_GE(found->data(), span.data());
            ASSERT_LE(found->data() + found->size(), span.data() + span.size());
          } catch (const Error& error) {
            ++named;
            expect_words(error.what(), {"damaged.mdb", key});
          }
        }
      } catch (const Error& error) {
        ++refused;
        expect_words(error.what(), {"damaged.mdb"});
      }
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(named, 0);
}

}  // namespace
}  // namespace lockstep::test
