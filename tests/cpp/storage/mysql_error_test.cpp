#include "cpp/storage/mysql_error.hpp"

#include <gtest/gtest.h>

#include <map>

namespace tmesh::storage {
namespace {

// The whole table: number to code. Numbers as in the manuals of MySQL and MariaDB.
const std::map<unsigned, tmesh_code> codes = {
    {1021, TMESH_E_LIMIT},     {1114, TMESH_E_LIMIT},                                 // disk
    {1022, TMESH_E_STATE},     {1062, TMESH_E_STATE},     {1586, TMESH_E_STATE},      // unique
    {1050, TMESH_E_STATE},     {1060, TMESH_E_STATE},     {1061, TMESH_E_STATE},      // DDL again
    {1205, TMESH_E_TIMEOUT},   {1213, TMESH_E_TIMEOUT},   {3572, TMESH_E_TIMEOUT},    // locks
    {1153, TMESH_E_TOO_LARGE}, {1406, TMESH_E_TOO_LARGE}, {2020, TMESH_E_TOO_LARGE},  // too long
    {1048, TMESH_E_INVALID},   {1364, TMESH_E_INVALID},   {1264, TMESH_E_INVALID},    // schema
    {1265, TMESH_E_INVALID},   {1292, TMESH_E_INVALID},   {1366, TMESH_E_INVALID},    //
    {1690, TMESH_E_INVALID},   {1451, TMESH_E_INVALID},   {1452, TMESH_E_INVALID},    //
    {3819, TMESH_E_INVALID},   {4025, TMESH_E_INVALID},                               //
    {1037, TMESH_E_NO_MEMORY}, {1038, TMESH_E_NO_MEMORY}, {1041, TMESH_E_NO_MEMORY},  // memory
    {2008, TMESH_E_NO_MEMORY}, {1290, TMESH_E_IO},        {1792, TMESH_E_IO},         //
    {1836, TMESH_E_IO},        {1054, TMESH_E_IO},        {1064, TMESH_E_IO},         //
    {1146, TMESH_E_IO},        {1142, TMESH_E_IO},        {1044, TMESH_E_IO},         //
    {1040, TMESH_E_IO},        {1053, TMESH_E_IO},        {1927, TMESH_E_IO},         // lost
    {4031, TMESH_E_IO},        {2006, TMESH_E_IO},        {2013, TMESH_E_IO},         //
    {2026, TMESH_E_IO},        {2055, TMESH_E_IO},        {9999, TMESH_E_IO},         //
};

TEST(MysqlFault, EachNumberHasItsCode) {
  for (const auto& [number, code] : codes) {
    const MysqlFault fault = mysql_fault(number, "");
    EXPECT_EQ(fault.error.code, code) << number;
    EXPECT_STRNE(fault.error.text, "") << number;
    EXPECT_EQ(fault.number, number);
  }
}

TEST(MysqlFault, OnlyLocksUndoATransaction) {
  for (unsigned number = 1000; number < 5000; ++number) {
    const bool is_lock = number == 1205 || number == 1213 || number == 3572;
    EXPECT_EQ(mysql_fault(number, "").ends_transaction, is_lock) << number;
    EXPECT_EQ(mysql_fault(number, "").error.code == TMESH_E_TIMEOUT, is_lock) << number;
  }
}

// To run a change again is safe only where it surely had no effect.
TEST(MysqlFault, AConnectionLostDuringAStatementLeavesItsOutcomeOpen) {
  for (const unsigned number : {1040U, 1053U, 1927U, 4031U, 2006U}) {
    EXPECT_TRUE(mysql_fault(number, "").is_lost) << number;
    EXPECT_TRUE(mysql_fault(number, "").never_ran) << number;
  }
  for (const unsigned number : {2013U, 2055U, 2026U, 2027U, 2014U}) {
    EXPECT_TRUE(mysql_fault(number, "").is_lost) << number;
    EXPECT_FALSE(mysql_fault(number, "").never_ran) << number;
  }
  EXPECT_FALSE(mysql_fault(1062, "").is_lost);
}

TEST(MysqlFault, AFullDiskMayHideInTheText) {
  EXPECT_EQ(mysql_fault(1030, "Got error 28 from storage engine InnoDB").error.code, TMESH_E_LIMIT);
  EXPECT_EQ(mysql_fault(1026, "Error writing file 'x' (Errcode: 28 \"No space left\")").error.code,
            TMESH_E_LIMIT);
  EXPECT_EQ(mysql_fault(1030, "Got error 122 from storage engine").error.code, TMESH_E_IO);
  EXPECT_EQ(mysql_fault(1026, "Error writing file 'x' (Errcode: 280 \"x\")").error.code, TMESH_E_IO);
}

TEST(MysqlConnectReason, TellsTheCommonOnesApart) {
  EXPECT_EQ(mysql_connect_reason(1045, "Access denied for user 'u'@'h' (using password: YES)"),
            "user or password is not accepted");
  EXPECT_EQ(mysql_connect_reason(1049, "Unknown database 'd'"), "there is no database of this name");
  EXPECT_EQ(mysql_connect_reason(2026, "TLS/SSL error: x"), "TLS: TLS/SSL error: x");
  EXPECT_EQ(mysql_connect_reason(1234, "text with a user"), "it cannot be opened (MySQL error 1234)");
}

}  // namespace
}  // namespace tmesh::storage
