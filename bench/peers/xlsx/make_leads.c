/*
 * Leads as a workbook, 12 columns, by libxlsxwriter: make_leads FILE ROWS shared|inline
 *
 * Shared strings are what Excel writes; inline ones what programs write that do not want to hold
 * the table in memory. Every name, address and note is another one, as in real files.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xlsxwriter.h>

static const char *const headers[] = {"Nome",    "Telefone", "E-mail", "CPF",
                                      "Cidade",  "UF",       "Origem", "Valor",
                                      "Quartos", "Cadastro", "Ativo",  "Notas"};
static const char *const names[] = {"Ana",
                                    "Bruno",
                                    "Cec\xC3\xADlia",
                                    "Davi",
                                    "Elo\xC3\xAD"
                                    "sa",
                                    "F\xC3\xA1"
                                    "bio",
                                    "Gabriela",
                                    "Heitor"};
static const char *const cities[] = {"S\xC3\xA3o Paulo", "Rio de Janeiro", "Belo Horizonte",
                                     "Porto Alegre",     "Curitiba",       "Recife"};
static const char *const states[] = {"SP", "RJ", "MG", "RS", "PR", "PE"};
static const char *const origins[] = {"Site", "Facebook", "Indica\xC3\xA7\xC3\xA3o", "Portal"};

static unsigned random_below(unsigned bound)
{
    static unsigned long long state = 42;
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(state >> 33) % bound;
}

static void write_row(lxw_worksheet *sheet, lxw_row_t row, lxw_format *date, lxw_format *cpf)
{
    char text[160];
    unsigned city = random_below(6);
    snprintf(text, sizeof text, "%s Souza %u", names[random_below(8)], row);
    worksheet_write_string(sheet, row, 0, text, NULL);
    worksheet_write_number(sheet, row, 1, 5511900000000.0 + row * 7919ULL % 99999999, NULL);
    snprintf(text, sizeof text, "lead%u@example.com", row);
    worksheet_write_string(sheet, row, 2, text, NULL);
    worksheet_write_number(sheet, row, 3, random_below(2000000000), cpf);
    worksheet_write_string(sheet, row, 4, cities[city], NULL);
    worksheet_write_string(sheet, row, 5, states[city], NULL);
    worksheet_write_string(sheet, row, 6, origins[random_below(4)], NULL);
    worksheet_write_number(sheet, row, 7, random_below(90000000) / 100.0, NULL);
    worksheet_write_number(sheet, row, 8, 1 + random_below(5), NULL);
    worksheet_write_number(sheet, row, 9, 44000 + random_below(2000), date);
    worksheet_write_boolean(sheet, row, 10, (int)random_below(2), NULL);
    snprintf(text, sizeof text, "Quer visitar o im\xC3\xB3vel %u & falar com o corretor",
             random_below(100000));
    worksheet_write_string(sheet, row, 11, text, NULL);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    lxw_workbook_options options = {.constant_memory = strcmp(argv[3], "inline") == 0};
    lxw_workbook *book = workbook_new_opt(argv[1], &options);
    lxw_worksheet *sheet = workbook_add_worksheet(book, "Leads");
    lxw_format *date = workbook_add_format(book), *cpf = workbook_add_format(book);
    format_set_num_format(date, "dd/mm/yyyy");
    format_set_num_format(cpf, "000\\.000\\.000\\-00");
    for (lxw_col_t i = 0; i < 12; i++)
        worksheet_write_string(sheet, 0, i, headers[i], NULL);
    for (lxw_row_t row = 1; row <= (lxw_row_t)strtoul(argv[2], NULL, 10); row++)
        write_row(sheet, row, date, cpf);
    return workbook_close(book) == LXW_NO_ERROR ? 0 : 1;
}
