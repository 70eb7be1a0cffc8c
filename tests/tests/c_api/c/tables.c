/* Tables of rows: what is put in comes out, and what is refused. */
#include "check.h"

#define ARGUMENT MGCOMP_RESULT_INVALID_ARGUMENT
#define HANDLE MGCOMP_RESULT_INVALID_HANDLE

enum { ROWS = 2000, ROW = 64, ALL = ROWS * ROW };

static uint32_t rows[ROWS][ROW / 4];

/* What row i holds: numbers below 100, of which most bits are zero. */
static void fill(uint32_t *row, uint32_t i)
{
    uint32_t j;

    for (j = 0; j < ROW / 4; j++)
        row[j] = (i + j) % 100;
}

static void gather_and_update(mgcompTable table)
{
    const uint64_t indices[3] = {7, 1999, 7}, beyond[2] = {0, ROWS};
    uint32_t out[3][ROW / 4], row[ROW / 4];
    mgcompGathered gathered;
    mgcompTableInfo info;

    GOOD(mgcompGatherRows(table, indices, 3, out, sizeof out, &gathered));
    fill(row, 7);
    CHECK(memcmp(out[0], row, ROW) == 0 && memcmp(out[2], row, ROW) == 0);
    fill(row, 1999);
    CHECK(memcmp(out[1], row, ROW) == 0);
    CHECK(gathered.rows == 3 && gathered.packedRows == 3 && gathered.storedBytes < 3 * ROW);
    CHECK(gathered.linkBytes % 128 == 0);
    GOOD(mgcompGatherRows(table, NULL, 0, NULL, 0, NULL));

    memset(row, 0xff, ROW);
    GOOD(mgcompUpdateRows(table, indices, 1, row, ROW));
    GOOD(mgcompGatherRows(table, indices, 1, out, ROW, NULL));
    CHECK(memcmp(out[0], row, ROW) == 0);
    GOOD(mgcompGetTableInfo(table, &info));
    CHECK(info.rows == ROWS && info.rowBytes == ROW && info.rawBytes == ALL && info.storedBytes < ALL / 3);

    REFUSED(ARGUMENT, "index 2000 at position 1", mgcompGatherRows(table, beyond, 2, out, 2 * ROW, NULL));
    REFUSED(ARGUMENT, "index 2000 at position 1", mgcompUpdateRows(table, beyond, 2, out, 2 * ROW));
    REFUSED(ARGUMENT, "3 rows of 64 bytes", mgcompGatherRows(table, indices, 3, out, 3 * ROW - 1, NULL));
    REFUSED(ARGUMENT, "indices is NULL", mgcompGatherRows(table, NULL, 3, out, 3 * ROW, NULL));
    REFUSED(ARGUMENT, "more than an address space", mgcompGatherRows(table, indices, SIZE_MAX / 2, out, ROW, NULL));
    REFUSED(ARGUMENT, "out and the table overlap", mgcompGatherRows(table, indices, 3, rows[10], 3 * ROW, NULL));
    REFUSED(ARGUMENT, "rows and the table overlap", mgcompUpdateRows(table, indices, 1, rows[9], ROW));
}

static void files(mgcompTable table)
{
    const uint64_t index = 1234;
    uint32_t out[ROW / 4], row[ROW / 4];
    mgcompTable loaded;
    FILE *file;

    GOOD(mgcompSaveTable(table, "rows.table"));
    GOOD(mgcompLoadTable("rows.table", UINT64_MAX, 2, &loaded));
    GOOD(mgcompGatherRows(loaded, &index, 1, out, ROW, NULL));
    fill(row, 1234);
    CHECK(memcmp(out, row, ROW) == 0);
    GOOD(mgcompUpdateRows(loaded, &index, 1, row, ROW));
    GOOD(mgcompDestroyTable(loaded));

    REFUSED(MGCOMP_RESULT_NO_MEMORY, "", mgcompLoadTable("rows.table", 100, 1, &loaded));
    REFUSED(MGCOMP_RESULT_SYSTEM, "nowhere", mgcompLoadTable("nowhere/rows.table", UINT64_MAX, 1, &loaded));
    REFUSED(MGCOMP_RESULT_SYSTEM, "nowhere", mgcompSaveTable(table, "nowhere/rows.table"));
    REFUSED(ARGUMENT, "path is NULL", mgcompSaveTable(table, NULL));
    file = fopen("rows.table", "r+b");
    CHECK(file != NULL && fseek(file, 100, SEEK_SET) == 0 && fputc(0x5a, file) == 0x5a && fclose(file) == 0);
    REFUSED(MGCOMP_RESULT_BAD_DATA, "", mgcompLoadTable("rows.table", UINT64_MAX, 1, &loaded));
}

int main(void)
{
    const mgcompTableOptions odd = {5, 1, 0, 1}, many = {4, 1, 100, 2}, none = {0, 0, 0, 1}, idle = {0, 1, 0, 0};
    const uint64_t index = 0;
    uint32_t out[ROW / 4], i;
    mgcompTable table, other = {0};

    REFUSED(ARGUMENT, "130 bytes", mgcompBuildTable(rows, 130, ROW, NULL, &table));
    REFUSED(ARGUMENT, "", mgcompBuildTable(rows, ALL, 0, NULL, &table));
    REFUSED(ARGUMENT, "granuleBytes is 5", mgcompBuildTable(rows, ALL, ROW, &odd, &table));
    REFUSED(ARGUMENT, "0 clusters", mgcompBuildTable(rows, ALL, ROW, &none, &table));
    REFUSED(ARGUMENT, "0 threads", mgcompBuildTable(rows, ALL, ROW, &idle, &table));
    REFUSED(ARGUMENT, "rows is NULL", mgcompBuildTable(NULL, ALL, ROW, NULL, &table));
    REFUSED(ARGUMENT, "table is NULL", mgcompBuildTable(rows, ALL, ROW, NULL, NULL));

    for (i = 0; i < ROWS; i++)
        fill(rows[i], i);
    GOOD(mgcompBuildTable(rows, ALL, ROW, &many, &table));
    gather_and_update(table);
    files(table);
    REFUSED(HANDLE, "empty", mgcompGatherRows(other, &index, 1, out, ROW, NULL));
    other.id = table.id + 1;
    REFUSED(HANDLE, "a table", mgcompGatherRows(other, &index, 1, out, ROW, NULL));
    GOOD(mgcompDestroyTable(table));
    REFUSED(HANDLE, "a table", mgcompDestroyTable(table));
    REFUSED(HANDLE, "a table", mgcompGatherRows(table, &index, 1, out, ROW, NULL));
    REFUSED(HANDLE, "a table", mgcompUpdateRows(table, &index, 1, out, ROW));
    memset(rows, 0, sizeof rows); /* the program's again */
    return 0;
}
